"""Whether the numbers recorded for rollouts can be a line of others: the cheapest question of all."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from estimators.reconcile_recorded import View

#: Pairs of rollouts through which a line is drawn, and the share of rollouts that must lie on one of them.
_PAIRS, _SHARE = 8, 0.5
#: With fewer rollouts than this a line says nothing; and no more than this are looked at.
_FEW, _MANY = 6, 1024
#: Numbers that are worked on at once.
_AT_ONCE = 1 << 18
#: The share of neighbours, in the order of the computed numbers, that have to be in order.
_ORDERED = 0.75

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Targets:
    """What lines have to pass near: the recorded numbers `y` `[M]` of the rollouts `kept` `[M]`, how far off
    each may be, the pairs to draw lines through, and the share of rollouts that a level line passes near."""

    kept: Tensor
    y: Floats
    allowed: Floats
    low: NDArray[np.int64]
    high: NDArray[np.int64]
    level: float


def targets(view: View, among: Tensor | None = None) -> Targets | None:
    """Of the rollouts `among` `[B]` bool, of all kept with the view; None where too few have a number."""
    if among is not None:
        return _targets(view, among)
    if "targets" not in view.derived:
        view.derived["targets"] = _targets(view, None)
    found = view.derived["targets"]
    return found if isinstance(found, Targets) else None


def _targets(view: View, among: Tensor | None) -> Targets | None:
    own = view.means
    known = (view.counts > 0) & torch.isfinite(own)
    kept = torch.nonzero(known if among is None else known & among).squeeze(1)
    if kept.numel() < _FEW:
        return None
    greatest = float(own[kept].abs().max())
    if kept.numel() > _MANY:
        kept = kept[torch.linspace(0, kept.numel() - 1, _MANY).long()]
    y = own[kept].double()
    usual = view.precision.rtol * y.abs() + 2 * view.slack[kept] + view.precision.floor * greatest
    level = float(((y - y.median()).abs() <= 4 * usual).double().mean())
    size, order = y.numel(), torch.argsort(y).numpy()
    # From the outer quarters: what the ends are off by then hardly grows between them.
    inward = np.arange(_PAIRS) * (size // 4) // _PAIRS
    return Targets(kept, y.numpy(), 4 * usual.numpy(), order[inward], order[size - 1 - inward], level)


def near_lines(means: Tensor, wanted: Targets | None) -> Tensor:
    """`[K]` bool: whether some line through two rollouts passes near half of them, for `means` `[K, B]`."""
    if wanted is None:
        return torch.ones(means.shape[0], dtype=torch.bool)
    x = means[:, wanted.kept].double().numpy()
    some = max(1, _AT_ONCE // (_PAIRS * x.shape[1]))
    found = [_near(x[first : first + some], wanted) for first in range(0, x.shape[0], some)]
    return torch.from_numpy(np.concatenate(found) if found else np.zeros(0, dtype=np.bool_))


def _near(x: Floats, wanted: Targets) -> NDArray[np.bool_]:
    low, high, y = wanted.low, wanted.high, wanted.y
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        run = x[:, high] - x[:, low]
        slope = (y[high] - y[low]) / np.where(run != 0, run, np.nan)
        error = x[:, None, :] - x[:, low, None]
        error *= -slope[:, :, None]
        error += (y - y[low, None])[None]
        close = (np.abs(error, out=error) <= wanted.allowed).mean(axis=2)
    unsaid = np.isfinite(x).mean(axis=1) < _SHARE
    near: NDArray[np.bool_] = (np.maximum(close.max(axis=1), wanted.level) >= _SHARE) | unsaid
    return near


def in_scopes(means: Tensor, view: View, ids: Tensor, largest: Targets | None) -> bool:
    """Whether the recorded numbers can come of whitening `means` `[B]` inside each scope of `ids` `[B]`: in
    the largest scope they are a line of them, and everywhere the order stays."""
    if not bool(near_lines(means[None], largest)[0]):
        return False
    known = (view.counts > 0) & torch.isfinite(means) & torch.isfinite(view.means)
    of, x, y = (part[known].double().numpy() for part in (ids, means, view.means))
    slack = view.slack[known].numpy()
    order = np.lexsort((x, of))
    here, after = order[:-1], order[1:]
    close = 1e-6 * np.maximum(np.abs(x[here]), np.abs(x[after]))
    pairs = (of[here] == of[after]) & (x[after] - x[here] > close)
    if not pairs.any():
        return True
    allowed = 4 * (slack[here] + slack[after]) + view.precision.rtol * (np.abs(y[here]) + np.abs(y[after]))
    rising = y[after] - y[here] >= -allowed
    return bool(rising[pairs].mean() >= _ORDERED)


def scope_targets(view: View, ids: Tensor) -> Targets | None:
    """Of the members of the largest scope; of all where each is alone, as nothing but a line is then left."""
    counts = torch.bincount(ids)
    if int(counts.max()) == 1:
        return targets(view)
    return targets(view, ids == counts.argmax())
