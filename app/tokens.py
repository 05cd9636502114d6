"""Token text as a page may show it: hostile characters made visible, tokens joined to whole characters, and
every token's number as one of eleven colour classes. The text of a model never becomes markup.

Rules: a newline is a glyph and a real line break; a tab is a glyph and a tab; control, bidi and zero-width
characters, lone surrogates and U+FFFD are pills with their code point; tokens that end inside a character are
one *cluster*; ranges of about 512 tokens are chunks, cut at a line end where there is one.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from markupsafe import Markup, escape
from numpy.typing import NDArray

from app.token_joins import Joined, join

BUCKETS = 11
NO_VALUE = BUCKETS  # the class of a token without a number
CHUNK = 512

MASKED, OVER, SPECIAL, SEVERAL = 1, 2, 4, 8
_FLAG_CLASSES = {MASKED: "m", OVER: "o", SPECIAL: "sp", SEVERAL: "cl"}

#: Characters that reorder, hide or cannot be drawn. Newline and tab are not among them: they have glyphs.
_HOSTILE = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0e\ufeff\uffa0\ufff0-\uffff\ud800-\udfff\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_ODD = re.compile(f"[{_HOSTILE}]")
_ODD_OR_SPACE = re.compile(f"[{_HOSTILE}\n\t]")
_SPECIAL_TOKEN = re.compile(
    r"<[|｜][^<>]{1,80}[|｜]>|</?s>|<(?:pad|unk|bos|eos|mask|start_of_turn|end_of_turn)>"
    r"|\[/?(?:INST|PAD|CLS|SEP|MASK|UNK)\]"
)


@dataclass(frozen=True, slots=True)
class Chunk:
    """Clusters start:stop; `token` is the number of the first token. `cut`: no line break is at its end."""

    start: int
    stop: int
    token: int
    cut: bool


@dataclass(frozen=True, slots=True)
class TokenText:
    """The text of one response in clusters, each with its class.

    kind     "tokens": one text per token; "ids": only token ids are known; "text": only the whole text
    texts    text per cluster
    counts   tokens per cluster
    buckets  0 … 10 from strongest negative to strongest positive, 5 at zero, 11 where there is no number
    flags    bits MASKED, OVER (beyond the clip), SPECIAL (a control token), SEVERAL (tokens in one cluster)
    bytes    the bytes of each token of a cluster of several, where known
    note     what a reader must know of how the tokens were joined, or None
    """

    kind: str
    texts: list[str]
    counts: list[int]
    buckets: list[int]
    flags: list[int]
    bytes: dict[int, str]
    chunks: tuple[Chunk, ...]
    note: str | None

    def keys(self) -> NDArray[np.uint8]:
        """The class of each cluster in one number: bucket · 16 + flags."""
        return np.array(self.buckets, dtype=np.uint8) * np.uint8(16) + np.array(self.flags, dtype=np.uint8)


def bucket(values: NDArray[Any], clip: float) -> NDArray[np.int8]:
    """Colour class of each value: eleven equal steps over ±clip, 5 at zero, 11 where the value is NaN."""
    values = np.asarray(values, dtype=np.float64)
    known = ~np.isnan(values)
    scaled = np.zeros(values.shape)
    if clip > 0:
        np.divide(values, clip, out=scaled, where=known)
    scaled = np.clip(scaled, -1.0, 1.0)
    half = (BUCKETS - 1) // 2
    # Half away from zero, so that +x and −x always get classes that mirror each other.
    steps = np.sign(scaled) * np.floor(np.abs(scaled) * half + 0.5)
    found = np.where(known, half + steps, NO_VALUE)
    return np.asarray(found, dtype=np.int8)


def lay_out(
    texts: Sequence[str],
    response: str | None,
    values: NDArray[Any] | None,
    mask: NDArray[Any] | None,
    clip: float,
    most: int | None = None,
) -> TokenText:
    """Token texts with the class of each token's value; `values` and `mask` are per token, or None.

    `most`: only the first so many tokens, and those that end a character with them.
    """
    joined = join(texts, response, most)
    count = sum(joined.counts)
    values, mask = (None if array is None else array[:count] for array in (values, mask))
    return _text("tokens", joined, values, mask, clip)


def lay_out_ids(
    ids: NDArray[Any], values: NDArray[Any] | None, mask: NDArray[Any] | None, clip: float
) -> TokenText:
    """The ids themselves where no token text is known."""
    texts = [str(number) for number in ids.tolist()]
    return _text("ids", Joined(texts, [1] * len(texts)), values, mask, clip)


def lay_out_whole(response: str, value: float | None, clip: float) -> TokenText:
    """The whole text in the class of its one number."""
    lines = response.splitlines(keepends=True) or [response]
    parts = ["".join(lines[i : i + 40]) for i in range(0, len(lines), 40)]
    values = np.full(len(parts), np.nan if value is None else value)
    return _text("text", Joined(parts, [1] * len(parts)), values, None, clip)


def _text(
    kind: str,
    joined: Joined,
    values: NDArray[Any] | None,
    mask: NDArray[Any] | None,
    clip: float,
) -> TokenText:
    texts, tokens = joined.texts, sum(joined.counts)
    values = np.full(tokens, np.nan) if values is None else np.asarray(values, dtype=np.float64)
    masked = np.zeros(tokens, dtype=bool) if mask is None else ~np.asarray(mask, dtype=bool)
    counts = np.array(joined.counts, dtype=np.int64)
    starts = np.cumsum(counts) - counts
    strongest = _strongest(values, starts)
    flags = np.where(_every(masked, starts, counts), MASKED, 0)
    if clip > 0:
        flags |= np.where(np.abs(strongest) > clip * (1 + 1e-9), OVER, 0)
    flags |= np.where(counts > 1, SEVERAL, 0)
    known = (
        {text for text in set(texts) if _SPECIAL_TOKEN.fullmatch(text.strip())} if kind == "tokens" else set()
    )
    if known:
        flags |= np.array([SPECIAL if text in known else 0 for text in texts], dtype=np.int64)
    return TokenText(
        kind=kind,
        texts=texts,
        counts=joined.counts,
        buckets=bucket(strongest, clip).tolist(),
        flags=flags.tolist(),
        bytes=joined.spelled,
        chunks=tuple(chunks_of(texts, counts)),
        note=joined.note,
    )


def _strongest(values: NDArray[np.float64], starts: NDArray[np.int64]) -> NDArray[np.float64]:
    """The value with the largest magnitude in each cluster, NaN where none of its tokens has one."""
    if len(starts) == len(values):
        return values
    low = np.fmin.reduceat(values, starts)
    high = np.fmax.reduceat(values, starts)
    return np.where(np.abs(low) > np.abs(high), low, high)


def _every(flags: NDArray[Any], starts: NDArray[np.int64], counts: NDArray[np.int64]) -> NDArray[Any]:
    """Which clusters have the flag on all their tokens."""
    if len(starts) == len(flags):
        return flags
    return np.asarray(np.add.reduceat(flags.astype(np.int64), starts) == counts)


def chunks_of(texts: list[str], counts: NDArray[np.int64]) -> list[Chunk]:
    """Ranges of at most CHUNK tokens (a longer cluster stands alone), cut at a line end in the last half."""
    known = {text for text in set(texts) if text.endswith("\n")}
    lines = np.array([i + 1 for i, text in enumerate(texts) if text in known], dtype=np.int64)
    ends = np.concatenate([[0], np.cumsum(counts)])  # tokens before each cluster
    chunks: list[Chunk] = []
    start = 0
    while start < len(texts):
        stop = max(start + 1, int(np.searchsorted(ends, ends[start] + CHUNK, "right")) - 1)
        newline = int(lines[place - 1]) if (place := int(np.searchsorted(lines, stop, "right"))) else 0
        if stop < len(texts) and newline > start and ends[newline] - ends[start] >= CHUNK // 2:
            stop = newline
        cut = stop < len(texts) and texts[stop - 1] not in known
        chunks.append(Chunk(start, stop, int(ends[start]), cut))
        start = stop
    return chunks


def _opening_tags() -> list[str]:
    """The start of a token's element for each bucket and combination of flags."""
    tags = []
    for key in range((BUCKETS + 1) * 16):
        number, flags = divmod(key, 16)
        names = [f"b{number}"] if number < BUCKETS else ["bx"]
        names += [name for bit, name in _FLAG_CLASSES.items() if flags & bit]
        tags.append(f'<span class="{" ".join(names)}">')
    return tags


_OPENING = _opening_tags()


def chunk_html(text: TokenText, chunk: Chunk) -> Markup:
    """One element per cluster, in order; an element that stands for several tokens says so in `data-n`."""
    seen: dict[str, str] = {}
    parts: list[str] = []
    for i in range(chunk.start, chunk.stop):
        piece = text.texts[i]
        body = seen.get(piece)
        if body is None:
            body = seen[piece] = visible(piece) or "<i>∅</i>"
        tag = _OPENING[text.buckets[i] * 16 + text.flags[i]]
        if text.counts[i] > 1:
            inside = f' data-bytes="{text.bytes[i]}"' if i in text.bytes else ""
            tag = f'{tag[:-1]} data-n="{text.counts[i]}"{inside}>'
        parts.append(f"{tag}{body}</span>")
    # Only ids stand apart: the spaces between token texts are their own.
    return Markup((" " if text.kind == "ids" else "").join(parts))  # each went through visible()


def visible(text: str) -> str:
    """HTML of a text: escaped, with glyphs for newline and tab and pills for what would hide or reorder."""
    escaped = str(escape(text))
    return _ODD_OR_SPACE.sub(_glyph, escaped) if _ODD_OR_SPACE.search(escaped) else escaped


def _glyph(match: re.Match[str]) -> str:
    character = match.group()
    if character == "\n":
        return "<i>⏎</i>\n"
    if character == "\t":
        return "<i>⇥</i>\t"
    return f"<b>U+{ord(character):04X}</b>"


def shown(text: str | None) -> Markup:
    """HTML of any text of a model or a file: escaped, line breaks kept, hidden characters as pills."""
    escaped = str(escape(text or ""))
    return Markup(_ODD.sub(lambda m: f'<b class="pill">U+{ord(m.group()):04X}</b>', escaped))


def plain(text: str | None) -> str:
    """The same for a place that takes no markup (a title, an attribute): hidden characters as ⟨U+202E⟩."""
    return _ODD.sub(lambda m: f"⟨U+{ord(m.group()):04X}⟩", text or "")
