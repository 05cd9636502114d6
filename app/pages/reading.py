"""One rollout as pages show it: its tracks and its text in colour."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app import drawing, tokens
from app.drawing import Line
from app.figures.chosen import Chosen
from app.figures.token_heatmap import clip_of
from app.figures.tracks import SOURCES, Track, read_tracks
from app.pages.provenance import remedy_of
from app.tokens import TokenText
from storage import arrays
from storage.database import ReadSession
from storage.models import Batch, Rollout

TRACK_WIDTH = 640
#: Tokens per column where siblings stand side by side.
WINDOW = 2048

#: How a batch has its `response` where it is nothing but its tokens, in whatever form they were recorded.
JOINED = "derived:join(response_tokens)"

#: Key in the URL -> (track, key on the keyboard).
COLOURS = {
    "advantage": ("advantage", "a"),
    "reward": ("reward", "r"),
    "value": ("value", "v"),
    "td": ("TD error", "d"),
    "return": ("return", "g"),
    "logp": ("log p", "p"),
    "ref": ("log p − ref", "k"),
    "entropy": ("entropy", "n"),
}


@dataclass(frozen=True, slots=True)
class TrackLine:
    """One track as a line; `low` and `high` are the range that it is drawn over."""

    name: str
    line: Line
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class Missing:
    """A field without which a track cannot be drawn, and what would record it."""

    field: str
    remedy: str


@dataclass(frozen=True, slots=True)
class Shown:
    """The text of a response in colour.

    colour    which track the colour is; `colours`: those that there are (URL key, name, keyboard key)
    clip      where the colours end, and in words which quantile of what that is
    text      None where neither tokens nor text are recorded
    whole     the text beside the ids, where tokens have ids only
    why       why there is no colour per token, and what would give it
    of        tokens in all, where `text` has only the first of them
    """

    colour: str
    colours: tuple[tuple[str, str, str], ...]
    clip: float
    clip_says: str
    text: TokenText | None
    whole: str | None
    why: str | None
    of: int | None

    @property
    def label(self) -> str:
        """What the region of the text is called."""
        return f"Tokens of the response, coloured by {self.colour}"


@dataclass(frozen=True, slots=True)
class Reading:
    """What is recorded and computed for one rollout's tokens."""

    rollout: Rollout
    tracks: tuple[Track, ...]
    missing: tuple[str, ...]
    texts: list[str] | None
    ids: NDArray[Any] | None
    mask: NDArray[np.bool_] | None

    def track(self, name: str) -> NDArray[np.float64] | None:
        return next((track.values for track in self.tracks if track.name == name), None)


ALIKE = "The advantage is one number for the whole response: all of its tokens have its colour."


def read(session: ReadSession, rollout: Rollout, chosen: Chosen) -> Reading:
    found, missing = read_tracks(session, rollout, chosen)
    fields = arrays.rollout_arrays(session, rollout, ("response_tokens", "response_ids", "response_mask"))
    texts, ids, mask = (fields.get(name) for name in ("response_tokens", "response_ids", "response_mask"))
    return Reading(
        rollout,
        tuple(found),
        tuple(missing),
        texts if isinstance(texts, list) else None,
        ids if isinstance(ids, np.ndarray) else None,
        mask > 0 if isinstance(mask, np.ndarray) else None,
    )


def shown(
    reading: Reading,
    batch: Batch,
    chosen: Chosen,
    mean: float | None,
    clip: float,
    colour: str | None,
    most: int | None = None,
    among: Sequence[Reading] = (),
) -> Shown:
    """The text in the colour of a track; `mean` is the rollout's advantage, `clip` the step's.

    Another track than the advantage has its clip from this response, or from all that it is shown `among`.
    """
    there = {track.name for track in reading.tracks}
    colours = tuple((key, name, press) for key, (name, press) in COLOURS.items() if name in there)
    key = next((known for known, _, _ in colours if known == colour), "advantage")
    values = reading.track(COLOURS[key][0])
    says = "p98 of |A| over this step"
    if key != "advantage":
        clip = own_clip(among or (reading,), COLOURS[key][0])
        says = f"p98 of |{COLOURS[key][0]}| over {'these responses' if among else 'this response'}"
    length = max(len(reading.texts or ()), 0 if reading.ids is None else reading.ids.size)
    alike = values is None and mean is not None and length > 0
    if alike:
        values = np.full(length, mean)
    response = reading.rollout.response
    if batch.fields.get("response") == JOINED and response == "".join(reading.texts or ()):
        response = None
    text, whole, why = text_of(reading, response, values, mean, clip, most)
    why = why or (ALIKE if alike else no_colour(batch, chosen, values, mean))
    cut = most is not None and text is not None and text.kind != "text" and length > most
    return Shown(key, colours, clip, says, text, whole, why, length if cut else None)


def own_clip(readings: Sequence[Reading], name: str) -> float:
    """The p98 of a track over the unmasked tokens of some responses."""
    kept = []
    for reading in readings:
        values = reading.track(name)
        if values is not None:
            mask = fitting(reading.mask, values.size)
            kept.append(values if mask is None else values[mask])
    whole = np.concatenate(kept) if kept else np.zeros(0)
    return clip_of(whole, np.ones(whole.size, bool))


def text_of(
    reading: Reading,
    response: str | None,
    values: NDArray[np.float64] | None,
    mean: float | None,
    clip: float,
    most: int | None,
) -> tuple[TokenText | None, str | None, str | None]:
    """Token text, ids, or the whole text in one colour; the text beside ids; why it is no more than that.

    `response`: the text that was recorded, None where it was made of the tokens."""
    if reading.texts is not None:
        count = len(reading.texts)
        laid = tokens.lay_out(
            reading.texts, response, fitting(values, count), fitting(reading.mask, count), clip, most
        )
        return laid, None, None
    if reading.ids is not None:
        ids = reading.ids[:most]
        laid = tokens.lay_out_ids(
            ids, first(values, reading.ids.size, most), first(reading.mask, reading.ids.size, most), clip
        )
        why = (
            "Only token ids are recorded, so each token is its id. Record response_tokens beside "
            "response_ids to see their text."
        )
        return laid, response, why
    if response is None:
        return None, None, None
    why = "No tokens are recorded: the whole response stands in the colour of its one advantage."
    if values is not None:
        why = (
            "Numbers per token are recorded, but no tokens: the text stands whole, in the colour of its "
            "mean. The tracks are per token."
        )
    return tokens.lay_out_whole(response, mean, clip), None, why


def fitting(values: NDArray[Any] | None, count: int) -> NDArray[Any] | None:
    """The values if there is one for each token, else None: numbers are never shifted onto other tokens."""
    return values if values is not None and values.size == count else None


def first(values: NDArray[Any] | None, count: int, most: int | None) -> NDArray[Any] | None:
    found = fitting(values, count)
    return None if found is None else found[:most]


def no_colour(
    batch: Batch, chosen: Chosen, values: NDArray[np.float64] | None, mean: float | None
) -> str | None:
    """Why nothing is coloured although there is text."""
    if values is not None or mean is not None:
        return None
    if chosen.why is not None:
        return f"Nothing is coloured: {chosen.why}"
    return f"This rollout has no advantage; to have one recorded, {remedy_of('advantages', batch.format)}."


def track_lines(reading: Reading) -> tuple[TrackLine, ...]:
    """The tracks as small lines on one token axis."""
    lines = []
    for track in reading.tracks:
        low, high = (0.0, 1.0) if track.name == "mask" else (None, None)
        line = (
            drawing.stems(track.values, TRACK_WIDTH, 32)
            if track.name == "reward"
            else drawing.line(track.values, TRACK_WIDTH, 32, low, high)
        )
        lines.append(TrackLine(track.name, line, line.low, line.high))
    return tuple(lines)


def missing_of(reading: Reading, batch: Batch) -> tuple[Missing, ...]:
    named = [name for name in reading.missing if name in SOURCES.values()]
    return tuple(Missing(name, remedy_of(name, batch.format)) for name in named)
