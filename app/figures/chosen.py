"""Which advantages a figure shows: an estimate's, or the recorded ones."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.errors import Conflict, NotFound
from app.figures.kept import estimate_columns
from storage import arrays, estimates
from storage.database import ReadSession
from storage.models import Batch, Estimate
from storage.rollouts import Columns

RECORDED = "recorded"
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Chosen:
    """`estimate` None with `field` set: the recorded ones. Neither: there are none, and `why` says so.

    label      how a caption names them: "grpo/verl (recomputed)", "recorded advantages"
    field      per-token field to read, or None where there is one number per rollout
    """

    label: str
    estimate: Estimate | None = None
    field: str | None = None
    why: str | None = None

    @property
    def request(self) -> dict[str, Any]:
        return dict(self.estimate.request) if self.estimate is not None else {}


def choose(
    session: ReadSession,
    batch: Batch,
    asked: str | None,
    *,
    per_token: bool = False,
    made: Sequence[Estimate] | None = None,
) -> Chosen:
    """The advantages that `asked` names: an estimate's id, "recorded", or None for the default.

    The default is the batch's first finished default estimate (one per token first, where `per_token`), then
    any finished one, then what was recorded. `made`: `estimates.of_batch`, where the caller has read it.
    Raises NotFound and Conflict (not finished).
    """
    if asked == RECORDED:
        return _recorded(batch)
    if asked is not None:
        return _named(session, batch, asked)
    made = estimates.of_batch(session, batch.id) if made is None else made
    done = [estimate for estimate in made if estimate.state == "succeeded"]
    if per_token:
        done.sort(key=lambda estimate: not estimate.per_token)
    if done:
        return _of(done[0])
    recorded = _recorded(batch)
    if recorded.why is None:
        return recorded
    return Chosen("", why="no advantages: none are recorded, and no estimate of this batch is finished yet.")


def _named(session: ReadSession, batch: Batch, asked: str) -> Chosen:
    estimate = estimates.get(session, asked)
    if estimate is None or estimate.batch_id != batch.id:
        raise NotFound(f"This batch has no estimate {asked!r}; its estimates are listed with the batch.")
    if estimate.state != "succeeded":
        raise Conflict(f"The estimate {asked!r} is {estimate.state}; draw it when it has succeeded.")
    return _of(estimate)


def _of(estimate: Estimate) -> Chosen:
    field = estimates.field("advantages", estimate.id) if estimate.per_token else None
    return Chosen(f"{estimate.convention or estimate.estimator} (recomputed)", estimate, field)


def _recorded(batch: Batch) -> Chosen:
    if batch.fields.get("advantages") == RECORDED:
        return Chosen("recorded advantages", None, "advantages")
    if batch.fields.get("advantage") == RECORDED:
        return Chosen("recorded advantages", None, None)
    return Chosen("recorded advantages", why="no values recorded: advantages.")


def per_rollout(session: ReadSession, batch: Batch, chosen: Chosen, columns: Columns) -> Floats:
    """One advantage per rollout, `[B]` in storage order: the mean of its unmasked tokens; NaN for none."""
    if chosen.why is not None:
        return np.full(columns.rollouts, np.nan)
    if chosen.estimate is not None:
        return column(session, chosen.estimate, columns, "advantage")
    if chosen.field is None:
        return columns.advantage
    return token_means(session, batch, chosen.field, columns)


def column(session: ReadSession, estimate: Estimate, columns: Columns, name: str) -> Floats:
    """A column of an estimate, `[B]` in storage order, NaN where it has nothing to say."""
    stored = estimate_columns(session, estimate)
    found = np.full(columns.rollouts, np.nan)
    place = np.searchsorted(stored["index"], columns.index)
    place = np.minimum(place, max(stored["index"].size - 1, 0))
    if stored["index"].size:
        there = stored["index"][place] == columns.index
        found[there] = stored[name][place[there]]
    return found


def token_means(session: ReadSession, batch: Batch, field: str, columns: Columns) -> Floats:
    """Mean of a per-token field over the finite unmasked tokens of each rollout, `[B]` in storage order.

    Read part by part, so that a large batch is never in memory as a whole.
    """
    mean = np.full(columns.rollouts, np.nan)
    masks = {(g, part): slots for g, part, slots in arrays.iterate(session, batch.id, "response_mask")}
    starts = first_places(columns)
    for group_no, part, slots in arrays.iterate(session, batch.id, field):
        own = masks.get((group_no, part), [None] * len(slots))
        for place, (values, mask) in enumerate(zip(slots, own, strict=True), start=starts[group_no, part]):
            if values is None:
                continue
            kept = values if mask is None else values[mask > 0]
            kept = kept[np.isfinite(kept)]
            mean[place] = kept.mean(dtype=np.float64) if kept.size else np.nan
    return mean


def first_places(columns: Columns) -> dict[tuple[int, int], int]:
    """(group_no, part) -> position of its first rollout in storage order."""
    keys = zip(columns.group_no.tolist(), columns.part.tolist(), strict=True)
    return {key: i for i, key in reversed(list(enumerate(keys)))}


def tokens(
    session: ReadSession, batch: Batch, field: str
) -> tuple[NDArray[Any], NDArray[np.int64], NDArray[np.bool_]] | None:
    """A field end to end in storage order, tokens per rollout (0 where absent), and which tokens are
    unmasked.

    None where no rollout has the field. Without a mask every token is unmasked.
    """
    read = arrays.flat(session, batch.id, field)
    if read is None:
        return None
    values, lengths = read[0], np.maximum(read[1], 0).astype(np.int64)
    masked = arrays.flat(session, batch.id, "response_mask")
    if masked is None:
        return values, lengths, np.ones(values.size, dtype=bool)
    mask, mask_lengths = masked[0] > 0, np.maximum(masked[1], 0).astype(np.int64)
    if np.array_equal(lengths, mask_lengths):
        return values, lengths, mask
    return values, lengths, _aligned(mask, mask_lengths, lengths)


def _aligned(mask: NDArray[np.bool_], have: NDArray[np.int64], want: NDArray[np.int64]) -> NDArray[np.bool_]:
    """The mask for rollouts of which some lack the field, or the mask."""
    starts = np.concatenate(([0], np.cumsum(have)))
    parts = [
        mask[starts[i] : starts[i] + want[i]] if have[i] == want[i] else np.ones(want[i], dtype=bool)
        for i in range(want.size)
    ]
    return np.concatenate(parts) if parts else np.zeros(0, dtype=bool)
