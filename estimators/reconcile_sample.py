"""A few whole groups of a batch: what cannot be there cannot be anywhere, and is found out cheaply."""

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from estimators.batch import TOKEN_FIELDS, Batch
from estimators.masked import repeated, segment_sums
from estimators.reconcile_recorded import View
from estimators.reconciliation import Recorded

#: Batches of at most this many tokens are looked at as a whole.
SMALL = 1 << 17
#: Rollouts whose groups make up the sample, and the most of one group that are looked at; where a formula
#: compares siblings, those of a group of up to so many.
SEEDS, LARGEST, SIBLINGS = 6, 512, 1024
#: No further group is looked at once there are so many rollouts; where a mistake makes other groups, so many.
GROUPED, REGROUPED = 160, 96


def seeds(batch: Batch) -> Tensor:
    """Rollouts to look at: the one that reaches furthest, those with most masked tokens inside, and others
    spread over the batch."""
    reach = _reach(batch)
    inside = reach + 1 - batch.unmasked
    some = torch.linspace(0, batch.rollouts - 1, SEEDS, device=reach.device).long()
    found: Tensor = torch.unique(torch.cat([reach.argmax().view(1), inside.argmax().view(1), some]))
    return found


def _reach(batch: Batch) -> Tensor:
    """Place of each rollout's last unmasked token, `[B]` int64; −1 where there is none."""
    reach, mask = batch.lengths - 1, batch.response_mask.numpy()
    rows = torch.nonzero(reach >= 0).squeeze(1)
    for row in rows[~batch.response_mask[batch.offsets[rows + 1] - 1]].tolist():
        found = np.flatnonzero(mask[int(batch.offsets[row]) : int(batch.offsets[row + 1])])
        reach[row] = int(found[-1]) if found.size else -1
    return reach


def members(seed: Tensor, group: Tensor, most: int | None = None, largest: int = LARGEST) -> Tensor:
    """The rollouts that share a group with one of `seed`, ascending; at most `largest` a group, the smallest
    groups first, and no further one once there are `most`."""
    sizes = torch.bincount(group)
    numbers = torch.unique(group[seed])
    chosen: list[Tensor] = []
    for number in numbers[torch.argsort(sizes[numbers], stable=True)]:
        if most is None or sum(each.numel() for each in chosen) < most:
            chosen.append(torch.nonzero(group == number).squeeze(1)[:largest])
    found: Tensor = torch.sort(torch.cat(chosen)).values
    return found


def tokens_of(values: Tensor, batch: Batch, rows: Tensor) -> Tensor:
    """The entries of `values` `[N]` that are tokens of `rows`, one rollout after the other."""
    spans = zip(batch.offsets[rows].tolist(), batch.offsets[rows + 1].tolist(), strict=True)
    parts = [values[first:last] for first, last in spans]
    return torch.cat(parts) if parts else values[:0]


def take(batch: Batch, rows: Tensor) -> Batch:
    """The batch of these rollouts only."""
    changes: dict[str, Any] = {}
    for each in fields(Batch):
        value = getattr(batch, each.name)
        if isinstance(value, Tensor) and each.name != "offsets":
            per_token = each.name in (*TOKEN_FIELDS, "response_mask")
            changes[each.name] = tokens_of(value, batch, rows) if per_token else value[rows]
    offsets = torch.nn.functional.pad(torch.cumsum(batch.lengths[rows], 0), (1, 0))
    components = {name: column[rows] for name, column in batch.components.items()}
    return replace(batch, offsets=offsets, components=components, **changes)


def view_of(view: View, rows: Tensor) -> View:
    """The recorded numbers of these rollouts, over the mask of the whole view."""
    values, batch = view.values, take(view.batch, rows)
    part = tokens_of(values, view.batch, rows) if view.recorded.per_token else values[rows]
    return View(batch, Recorded(part, view.recorded.per_token), view.precision, view.scale)


def lines(raw: Tensor, view: View) -> Tensor:
    """Rollouts whose recorded numbers are a line, a·x + b, of the raw ones `[N]`: `[B]` float64 with 1, 0, or
    NaN where too few differing tokens say anything."""
    taken, batch = view.taken, view.batch
    x, offsets = torch.where(taken, raw, 0.0).double(), batch.offsets
    dy, allowed, level = view.centred
    count = view.counts.clamp(min=1).double()

    def spread(values: Tensor) -> Tensor:
        return repeated(values, batch.lengths)

    sums = segment_sums(x, offsets)
    dx = (x - spread(sums / count)) * view.weight
    xx, xy = segment_sums(dx * dx, offsets), segment_sums(dx * dy, offsets)
    slope = torch.where(xx > 0, xy / xx.clamp(min=1e-300), 0.0)
    error = (dy - spread(slope) * dx).abs()
    wrong = segment_sums((error > allowed).double(), offsets) > 0
    # A line that is level where the raw numbers differ says nothing of them.
    squares = x * x
    usual = squares.sum() / view.weight.sum().clamp(min=1)
    wrong |= level & (xx > 1e-10 * (segment_sums(squares, offsets) + count * usual))
    fits = torch.where(wrong | ~torch.isfinite(sums), 0.0, 1.0)
    says = view.counts > 2
    return torch.where(says, fits, torch.nan)


def mostly(says: Tensor) -> bool:
    """Whether nine in ten of those that say anything say yes."""
    known = says[~torch.isnan(says)]
    return not known.numel() or float(known.mean()) >= 0.9


def rows_of(part: Tensor, rows: Tensor) -> Tensor:
    """`part` `[B]` of these rollouts; itself where all share one, `[1]`."""
    return part if part.shape[0] == 1 else part[rows]


def on_lines(means: Tensor, view: View, ids: Tensor | None) -> bool:
    """Whether the recorded means of nine in ten rollouts are a line of `means` `[B]`, one line for each scope
    of `ids` `[B]` (None: one for all)."""
    kept = (view.counts > 0) & torch.isfinite(means)
    x, y = means[kept], view.means[kept]
    scope = torch.zeros_like(kept, dtype=torch.int64)[kept] if ids is None else ids[kept]
    if not x.numel():
        return False

    def centred(values: Tensor) -> Tensor:
        sums = torch.zeros(int(scope.max()) + 1, dtype=torch.float64).index_add_(0, scope, values)
        return values - (sums / counts)[scope]

    counts = torch.bincount(scope).clamp(min=1).double()
    dx, dy = centred(x), centred(y)
    none = torch.zeros_like(counts)
    xx, xy = none.index_add(0, scope, dx * dx), none.index_add(0, scope, dx * dy)
    slope = torch.where(xx > 0, xy / xx.clamp(min=1e-300), 0.0)
    error = (dy - slope[scope] * dx).abs()
    largest = view.precision.floor * y.abs().max()
    near = error <= 2 * (view.precision.rtol * y.abs() + 2 * view.slack[kept] + largest)
    return float(near.double().mean()) >= 0.9


def plausible_means(raw: Tensor, view: View) -> bool:
    """Whether the recorded means can be those of raw advantages `[N]`, whatever was whitened: over all, or
    over one of the recorded scopes that have enough members to tell."""
    batch = view.batch
    shown = torch.where(batch.response_mask, raw, 0.0)
    means = segment_sums(shown, batch.offsets) / batch.unmasked.clamp(min=1)
    scopes = (batch.rank, batch.micro_batch, batch.data_source, batch.group)
    return on_lines(means, view, None) or any(
        on_lines(means, view, ids) for ids in scopes if ids is not None and _members(ids) >= 4
    )


def _members(ids: Tensor) -> float:
    """Median number of rollouts in the scopes that have any."""
    counts = torch.bincount(ids)
    return float(counts[counts > 0].median())


@dataclass(frozen=True, slots=True)
class Sample:
    """Some rollouts of the batch, and what is recorded of them."""

    rows: Tensor
    part: Batch
    seen: View
