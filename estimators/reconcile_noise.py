"""What single precision leaves of groups whose rewards are equal, or nearly so.

Frameworks hold rewards in float32. The mean of eight rewards of 0.1 is not 0.1 there, but one unit in the
last place off; divided by a spread of the same size it becomes an advantage between 0 and ±1, or of any size
where ε is small. What a formula makes of such rounding is found by the usual propagation of errors: the
rewards of these groups are moved by as much as rounding moves a sum of them, and the formula is computed once
more. An advantage inside that band is evidence for nothing and against nothing.
"""

from dataclasses import replace

import torch
from torch import Tensor

from estimators.batch import Batch
from estimators.estimator import Raw
from estimators.masked import repeated, segment_sums
from estimators.mistakes.mistake import Setup
from estimators.reconcile_recorded import Fit, View
from estimators.refused import Refused
from estimators.registry import ESTIMATORS
from estimators.shape import IDENTITY, Shape
from estimators.whitening import Affine, Whitening

#: Rewards of a group that lie closer together than this, in their own size, are as good as equal.
CLOSE = 1e-3
#: Half a unit in the last place of float32, in the size of the number.
_HALF = 2.0**-24
#: How many times the propagated error an advantage may lie off: rounding is not moved by our own pattern.
_TIMES = 2.0
#: Whole numbers of this part of 1 add up without rounding, as long as their sums stay below 2**24 of it.
_EXACT = 4096.0
_KEPT = "shaken"


def shaken(batch: Batch) -> Batch | None:
    """The batch with the rewards of close groups moved by the rounding of a sum in float32, one up, the next
    one down; None where no group is close, or all sums are exact."""
    own = batch.group, batch.scores, batch.token_level_rewards
    kept: tuple[tuple[Tensor | None, ...], Batch | None] | None = batch.derived.get(_KEPT)
    if kept is None or any(one is not other for one, other in zip(kept[0], own, strict=True)):
        kept = batch.derived[_KEPT] = own, _shaken(batch)
    return kept[1]


def _shaken(batch: Batch) -> Batch | None:
    if not batch.rollouts:
        return None
    sizes = torch.bincount(batch.group)
    close = torch.zeros_like(sizes, dtype=torch.bool)
    for rewards in (_scores(batch), *batch.components.values()):
        close |= _close(rewards.double(), batch.group, sizes)
    if not bool(close.any()):
        return None
    order = torch.argsort(batch.group, stable=True)
    first = torch.cumsum(sizes, 0) - sizes
    place = torch.empty_like(order)
    place[order] = torch.arange(batch.rollouts) - first[batch.group[order]]
    step = _HALF * sizes.double().clamp(min=2.0)[batch.group] * (1.0 - 2.0 * (place % 2))
    factor = 1.0 + torch.where(close[batch.group], step, 0.0)
    changes: dict[str, Tensor] = {"scores": batch.scores.double() * factor}
    for name in ("token_level_rewards", "token_level_scores"):
        value = getattr(batch, name)
        if value is not None:
            changes[name] = value.double() * repeated(factor, batch.lengths)
    parts = {name: part.double() * factor for name, part in batch.components.items()}
    return replace(batch, components=parts, **changes)  # type: ignore[arg-type] # tensors only


def _scores(batch: Batch) -> Tensor:
    """The reward of each rollout, `[B]`: as recorded, else the sum of its tokens'."""
    tokens = batch.token_level_rewards if batch.token_level_rewards is not None else batch.token_level_scores
    if tokens is None:
        return batch.scores
    sums = segment_sums(tokens, batch.offsets)
    return torch.where(torch.isfinite(batch.scores), batch.scores.double(), sums)


def _close(rewards: Tensor, group: Tensor, sizes: Tensor) -> Tensor:
    """`[G]` bool: groups of several rewards, as good as equal, whose sum is rounded in float32."""
    count = sizes.shape[0]
    finite = torch.isfinite(rewards)
    low = torch.full((count,), torch.inf, dtype=torch.float64)
    high = torch.full((count,), -torch.inf, dtype=torch.float64)
    low.scatter_reduce_(0, group[finite], rewards[finite], "amin")
    high.scatter_reduce_(0, group[finite], rewards[finite], "amax")
    size = torch.maximum(low.abs(), high.abs())
    whole = rewards * _EXACT
    rounded = finite & ~((whole == whole.round()) & (whole.abs() * sizes[group] < 2.0**24))
    inexact = torch.zeros(count, dtype=torch.bool)
    inexact[group[rounded]] = True
    return (sizes > 1) & inexact & torch.isfinite(size) & (high - low <= CLOSE * size)


def nearest(view: View, per_token: bool, exact: Tensor, single: Tensor | None, moved: Tensor | None) -> Fit:
    """The fit of what was computed, `[N]` where per token, else `[B]`, where rounding in single precision is
    no disagreement.

    single  the same as computed in float32: of both, the nearer counts
    moved   the same with the rewards moved by rounding: what lies no further off than that has no error
    """
    target = view.values if view.recorded.per_token == per_token else view.per_rollout
    if target is None or target.shape != exact.shape:
        return view.fit(exact, per_token, IDENTITY)
    target, shown = target.double(), exact.double()
    if single is not None:
        near = (single.double() - target).abs() < (shown - target).abs()
        shown = torch.where(near, single.double(), shown)
    if moved is not None:
        band = _TIMES * (moved.double() - exact.double()).abs().nan_to_num(0.0, 0.0, 0.0)
        shown = torch.where((exact.double() - target).abs() <= band, target, shown)
    return view.fit(shown, per_token, IDENTITY)


def in_single(
    view: View, setup: Setup, shape: Shape, affine: Affine, whitening: Whitening | None
) -> Fit | None:
    """How near the setup comes as single precision may have it; None where that is not told.

    whitening  what `affine` is; None where it is a mistake of its own, which is then done as it is
    """
    per_token = shape.raw.per_token
    exact = _done(view, setup.batch, shape.raw.advantages, per_token, affine, None)
    found: list[Tensor | None] = []
    for batch, dtype in ((setup.batch, torch.float32), (shaken(setup.batch), torch.float64)):
        raw = None if batch is None else _raw(replace(setup, batch=batch), dtype)
        if raw is not None and raw.shape != shape.raw.advantages.shape:
            return None
        whole = None if raw is None else _done(view, setup.batch, raw, per_token, affine, whitening)
        found.append(whole)
    return nearest(view, per_token, exact, *found)


def _raw(setup: Setup, dtype: torch.dtype) -> Tensor | None:
    run = setup.run or ESTIMATORS[setup.estimator].run
    try:
        return run(setup.batch, setup.params, dtype).advantages.double()
    except Refused:
        return None


def _done(
    view: View, batch: Batch, raw: Tensor, per_token: bool, affine: Affine, whitening: Whitening | None
) -> Tensor:
    """Raw advantages after the map, which is worked out anew from them where the whitening is known."""
    if whitening is not None and whitening.scope not in ("none", "running"):
        affine = Shape(batch, Raw(raw, per_token)).whitened(whitening) or affine
    if not per_token:
        return affine.apply(raw)
    parts = (
        part if part.shape[0] == 1 else repeated(part, view.batch.lengths)
        for part in (affine.centre, affine.factor, affine.back)
    )
    centre, factor, back = parts
    return (raw - centre) * factor + back
