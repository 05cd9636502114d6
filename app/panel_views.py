"""What a panel shows: everything that its picture needs, read now, as plain values that may be frozen.

A view names no id and no address, so that whoever has a link learns nothing of what lies beside it.
With `hidden`, no prompt, response, token text or group id is in it.
"""

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import select

from app import tokens
from app.errors import AppError
from app.figures import FIGURES
from app.figures import chosen as choosing
from app.figures.chosen import Chosen
from app.figures.even import even_clip
from app.figures.group_names import hidden_group_ids
from app.figures.kept import columns_of
from app.figures.members import group_means
from app.figures.token_heatmap import clip_of
from app.hiding import plain_finish_reason, seal
from app.panels import figure_options
from app.tokens import Chunk, TokenText
from estimators import Refused
from storage import arrays, batches, rollouts
from storage.arrays import Corrupt
from storage.database import ReadSession
from storage.models import Batch, EstimateRollout, Panel, Prompt, Rollout, Run

DAMAGED = "What is stored for this panel does not match its checksum; `vantage check` says more."
UNKNOWN = "This version of Vantage has no such figure."
REFUSED = "This panel cannot be drawn. Whoever shared it can see why."
DELETED = "The batch of this panel was deleted."
NOT_THERE = "The batch has no such {} any more."
#: So many responses of a group are shown; the table says of how many.
MOST_ROWS = 64
EXCERPT = 240  # characters of a response in a group's table
#: What stands for the text of a token that is to be hidden.
BLOCK = "▪"


@dataclass(frozen=True, slots=True)
class GroupRow:
    index: int
    reward: float | None
    advantage: float | None
    length: int | None
    finish_reason: str | None
    response: str | None


@dataclass(frozen=True, slots=True)
class GroupView:
    """`std` has ddof 1; `rows` by reward, highest first: all, or the first of `size`."""

    prompt: str | None
    size: int
    scored: int
    mean: float | None
    std: float | None
    rows: tuple[GroupRow, ...]


@dataclass(frozen=True, slots=True)
class RolloutView:
    """`clip`: the |advantage| at which the colours end, the p98 over the step's unmasked tokens."""

    prompt: str | None
    reward: float | None
    advantage: float | None
    length: int | None
    finish_reason: str | None
    clip: float
    text: TokenText | None


@dataclass(frozen=True, slots=True)
class PanelView:
    """One of `figure` (Plotly), `group`, `rollout` and `text` is there, or `missing` says why none is.

    `source` says what the numbers come from: run, step, split, and which advantages.
    """

    kind: str
    title: str
    source: str
    caption: str
    missing: str | None = None
    figure: dict[str, Any] | None = None
    group: GroupView | None = None
    rollout: RolloutView | None = None
    text: str | None = None


def view(session: ReadSession, panel: Panel, hidden: bool = False, sealed: bool = True) -> PanelView:
    """The panel as it is now. What cannot be shown says so in `missing` and never fails the whole page.

    `hidden`: without any text of a rollout. `sealed`: without ways to other pages, for who has but a link.
    """
    if panel.kind == "text":
        return PanelView("text", "", "", panel.caption, text=panel.options["text"])
    batch = batches.get(session, panel.batch_id or "")
    if batch is None:
        return PanelView(panel.kind, _title(panel), "", panel.caption, missing=DELETED)
    try:
        return _with_batch(session, panel, batch, hidden, sealed)
    except (AppError, Refused) as error:
        # What is refused may be quoted from the file.
        why = REFUSED if hidden else error.detail if isinstance(error, AppError) else str(error)
    except Corrupt:
        why = DAMAGED
    return PanelView(panel.kind, _title(panel), _origin(session, batch), panel.caption, missing=why)


def _with_batch(session: ReadSession, panel: Panel, batch: Batch, hidden: bool, sealed: bool) -> PanelView:
    origin = _origin(session, batch)
    if panel.kind == "figure":
        figure = FIGURES.get(panel.figure or "")
        if figure is None:
            return PanelView("figure", _title(panel), origin, panel.caption, missing=UNKNOWN)
        subject = session.get_one(Run, batch.run_id) if figure.scope == "run" else batch
        with hidden_group_ids(session) if hidden else nullcontext():
            plot = figure.build(session, subject, figure_options(panel.options, panel.estimate_id))
        plot = seal(plot) if sealed else plot
        return PanelView("figure", figure.title, origin, panel.caption, figure=plot)
    chosen = choosing.choose(session, batch, panel.estimate_id, per_token=panel.kind == "rollout")
    origin = f"{origin} · {chosen.label or 'no advantages'}"
    if panel.kind == "group":
        prompt = batches.group(session, batch.id, panel.options["group"])
        if prompt is None:
            return PanelView("group", "Group", origin, panel.caption, missing=NOT_THERE.format("group"))
        title = f"Group {prompt.group_no}" if hidden else f"Group {tokens.plain(prompt.group_id)}"
        return PanelView("group", title, origin, panel.caption, group=_group(session, prompt, chosen, hidden))
    rollout, title = rollouts.get(session, batch.id, panel.options["index"]), _title(panel)
    if rollout is None:
        return PanelView("rollout", title, origin, panel.caption, missing=NOT_THERE.format("rollout"))
    shown = _rollout(session, rollout, chosen, step_clip(session, batch, chosen), hidden)
    return PanelView("rollout", title, origin, panel.caption, rollout=shown)


def _title(panel: Panel) -> str:
    if panel.kind == "figure":
        figure = FIGURES.get(panel.figure or "")
        return figure.title if figure else str(panel.figure)
    return f"Rollout {panel.options['index']}" if panel.kind == "rollout" else "Group"


def _origin(session: ReadSession, batch: Batch) -> str:
    run = session.get_one(Run, batch.run_id)
    parts = [f"run {tokens.plain(run.name)}"]
    parts += [f"step {batch.step}"] if batch.step is not None else []
    parts += [tokens.plain(batch.split)] if batch.split else []
    return " · ".join(parts)


def _group(session: ReadSession, prompt: Prompt, chosen: Chosen, hidden: bool) -> GroupView:
    members = best_of(session, prompt)
    means = group_means(session, members, chosen)
    rows = [
        GroupRow(
            rollout.index,
            rollout.reward,
            means.get(rollout.index),
            rollout.length,
            plain_finish_reason(rollout.finish_reason) if hidden else rollout.finish_reason,
            None if hidden else excerpt(rollout.response),
        )
        for rollout in members
    ]
    text = None if hidden else prompt.prompt or conversation(prompt.messages)
    return GroupView(text, prompt.size, prompt.scored, prompt.reward_mean, prompt.reward_std, tuple(rows))


def best_of(session: ReadSession, prompt: Prompt) -> list[Rollout]:
    """The rollouts of a group by reward, highest first, unscored ones last; as many as are shown."""
    mine = (Rollout.batch_id == prompt.batch_id, Rollout.group_no == prompt.group_no)
    order = (Rollout.reward.desc().nulls_last(), Rollout.index)
    return list(session.execute(select(Rollout).where(*mine).order_by(*order).limit(MOST_ROWS)).scalars())


def excerpt(text: str | None) -> str | None:
    if text is None or len(text) <= EXCERPT:
        return text
    return text[: EXCERPT - 2] + " …"


def mean_advantage(session: ReadSession, rollout: Rollout, chosen: Chosen) -> float | None:
    """The estimate's mean over the rollout's unmasked tokens; of recorded ones that, or the one number."""
    if chosen.estimate is not None:
        row = session.get(EstimateRollout, (chosen.estimate.id, rollout.index))
        return None if row is None else row.advantage
    if chosen.field is None:
        return rollout.advantage
    found = arrays.rollout_arrays(session, rollout, (chosen.field, "response_mask"))
    values, mask = numbers(found, chosen.field), numbers(found, "response_mask")
    return None if values is None else _mean(values, mask)


def _mean(values: NDArray[np.float64], mask: NDArray[np.float64] | None) -> float | None:
    counted = values if mask is None else values[mask > 0]
    counted = counted[np.isfinite(counted)]
    return float(counted.mean()) if counted.size else None


def numbers(found: Mapping[str, NDArray[Any] | list[str]], name: str) -> NDArray[np.float64] | None:
    values = found.get(name)
    return values.astype(np.float64) if isinstance(values, np.ndarray) else None


def _rollout(
    session: ReadSession, rollout: Rollout, chosen: Chosen, clip: float, hidden: bool
) -> RolloutView:
    names = ["response_tokens", "response_ids", "response_mask", *([chosen.field] if chosen.field else [])]
    found = arrays.rollout_arrays(session, rollout, names)
    advantage = mean_advantage(session, rollout, chosen)
    mask, values = numbers(found, "response_mask"), numbers(found, chosen.field or "")
    if values is None and advantage is not None and rollout.length is not None:
        values = np.full(rollout.length, advantage)
    texts, ids = found.get("response_tokens"), found.get("response_ids")
    text: TokenText | None = None
    if hidden:
        count = len(texts if texts is not None else ids if ids is not None else ())
        text = tokens.lay_out([BLOCK] * count, None, values, mask, clip) if count else None
    elif isinstance(texts, list):
        text = tokens.lay_out(texts, rollout.response, values, mask, clip)
    elif isinstance(ids, np.ndarray):
        text = tokens.lay_out_ids(ids, values, mask, clip)
    elif rollout.response is not None:
        text = tokens.lay_out_whole(rollout.response, advantage, clip)
    prompt = None if hidden else _prompt_of(session, rollout)
    reason = plain_finish_reason(rollout.finish_reason) if hidden else rollout.finish_reason
    return RolloutView(prompt, rollout.reward, advantage, rollout.length, reason, clip, text)


def _prompt_of(session: ReadSession, rollout: Rollout) -> str | None:
    if rollout.prompt is not None or rollout.prompt_messages:
        return rollout.prompt or conversation(rollout.prompt_messages)
    group = batches.group(session, rollout.batch_id, rollout.group_no)
    return None if group is None else group.prompt or conversation(group.messages)


def conversation(messages: list[Any] | None) -> str | None:
    """Messages as plain text, each after its role."""
    if not messages:
        return None
    parts = [message if isinstance(message, dict) else {"content": message} for message in messages]
    return "\n\n".join(f"{part.get('role', '')}: {part.get('content', '')}" for part in parts)


def step_clip(session: ReadSession, batch: Batch, chosen: Chosen) -> float:
    """The p98 of |A| over the unmasked tokens of the step: the same for every rollout of it."""
    if chosen.why is not None:
        return 1.0
    if chosen.field is not None:
        read = choosing.tokens(session, batch, chosen.field)
        return 1.0 if read is None else clip_of(read[0], read[2])
    columns = columns_of(session, batch)
    counts = np.maximum(np.where(columns.valid >= 0, columns.valid, columns.length), 1)
    return even_clip(choosing.per_rollout(session, batch, chosen, columns), counts)


def from_json(body: Mapping[str, Any]) -> PanelView:
    """The view that was frozen as JSON (`dataclasses.asdict`)."""
    group, rollout = body["group"], body["rollout"]
    if group is not None:
        group = GroupView(**{**group, "rows": tuple(GroupRow(**row) for row in group["rows"])})
    if rollout is not None:
        rollout = RolloutView(**{**rollout, "text": _text_from_json(rollout["text"])})
    return PanelView(**{**body, "group": group, "rollout": rollout})


def _text_from_json(body: Mapping[str, Any] | None) -> TokenText | None:
    if body is None:
        return None
    chunks = tuple(Chunk(**chunk) for chunk in body["chunks"])
    # JSON has text keys only; the clusters are numbered.
    pieces = {int(place): text for place, text in body["bytes"].items()}
    return TokenText(**{**body, "chunks": chunks, "bytes": pieces})
