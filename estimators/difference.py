"""How far recorded advantages lie from what one request gives, and where, if nothing explains them."""

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from estimators.batch import Batch
from estimators.estimate import estimate, missing
from estimators.masked import repeated
from estimators.reconcile_configured import compared
from estimators.reconcile_recorded import View
from estimators.reconciliation import Recorded
from estimators.refused import Refused
from estimators.request import Request

_FAILING = 200
#: Share of the numbers that must agree once they are moved by a token.
_MOVED = 0.9


@dataclass(frozen=True, slots=True)
class Difference:
    """Of `compared` numbers (unmasked tokens, or rollouts where one number is recorded of each), `off` differ
    by more than rounding, in `rollouts_off` of `rollouts`.

    max_abs_error     the largest difference; there, `rollout` (place in the batch), `token` (position in the
                      response; None where one number is recorded of a rollout), `recorded` and `computed`
    median_abs_error  over all compared numbers
    scale             root mean square of the computed numbers
    correlation       of both over the compared numbers, None where one of them does not vary
    zeros             of the numbers that differ, those recorded as 0
    ends              all that differ are the last unmasked token of their rollout
    shift             +1: the recorded numbers stand one token late, −1: one early, with which at least nine
                      in ten agree, `shifted` of them; else None
    failing           rollouts that differ, the furthest off first, at most 200
    """

    compared: int
    off: int
    rollouts: int
    rollouts_off: int
    max_abs_error: float
    median_abs_error: float
    scale: float
    correlation: float | None
    rollout: int
    token: int | None
    recorded: float
    computed: float
    zeros: int
    ends: bool
    shift: int | None
    shifted: int
    failing: tuple[int, ...]


def difference(batch: Batch, recorded: Recorded, request: Request) -> Difference | None:
    """Compares on the CPU. None where the batch does not allow the request, or nothing can be compared."""
    batch, recorded = batch.to("cpu"), replace(recorded, advantages=recorded.advantages.cpu())
    if missing(batch, request):
        return None
    view = View(batch, recorded)
    computed = _nearer(_computed(view, batch, request), view, batch, request)
    if computed is None:
        return None
    taken = torch.isfinite(recorded.advantages) & torch.isfinite(computed)
    taken &= batch.response_mask if recorded.per_token else batch.unmasked > 0
    return _measured(view, computed, taken) if bool(taken.any()) else None


def _computed(view: View, batch: Batch, request: Request) -> Tensor | None:
    """What the request gives, in the shape of what is recorded."""
    try:
        found, per_token = compared(view, batch, estimate(batch, request))
    except Refused:
        return None
    spread = view.recorded.per_token and not per_token
    return repeated(found, batch.lengths).double() if spread else found.double()


def _nearer(exact: Tensor | None, view: View, batch: Batch, request: Request) -> Tensor | None:
    """Each number as the framework's single precision gives it, where that is nearer."""
    if exact is None:
        return None
    single = _computed(view, batch, replace(request, precision="float32"))
    if single is None:
        return exact
    target = view.values.double()
    return torch.where((single - target).abs() < (exact - target).abs(), single, exact)


def _measured(view: View, computed: Tensor, taken: Tensor) -> Difference:
    batch, values = view.batch, view.values.double()
    per_token = view.recorded.per_token
    owner = torch.arange(batch.rollouts)
    owner = repeated(owner, batch.lengths) if per_token else owner
    error = torch.where(taken, (values - computed).abs(), 0.0)
    allowed = view.precision.rtol * values.abs() + view.slack[owner]
    off = taken & (error > allowed)
    worst = int(error.argmax())
    each = torch.zeros(batch.rollouts, dtype=torch.float64).scatter_reduce_(
        0, owner, torch.where(off, error, 0.0), "amax"
    )
    order = each.argsort(descending=True, stable=True)[:_FAILING].tolist()
    shift, shifted = _shift(view, computed, taken, owner) if per_token else (None, 0)
    return Difference(
        compared=int(taken.sum()),
        off=int(off.sum()),
        rollouts=int(torch.unique(owner[taken]).numel()),
        rollouts_off=int((each > 0).sum()),
        max_abs_error=float(error[worst]),
        median_abs_error=float(error[taken].median()),
        scale=float(computed[taken].square().mean().sqrt()),
        correlation=_correlation(values[taken], computed[taken]),
        rollout=int(owner[worst]),
        token=worst - int(batch.offsets[owner[worst]]) if per_token else None,
        recorded=float(values[worst]),
        computed=float(computed[worst]),
        zeros=int((off & (values == 0)).sum()),
        ends=per_token and bool((off <= _ends(taken, owner)).all()),
        shift=shift,
        shifted=shifted,
        failing=tuple(place for place in order if float(each[place]) > 0),
    )


def _ends(taken: Tensor, owner: Tensor) -> Tensor:
    """`[N]` the last compared token of each rollout."""
    places = torch.arange(taken.shape[0])
    last = torch.full((int(owner.max()) + 1,), -1).scatter_reduce_(
        0, owner, torch.where(taken, places, -1), "amax"
    )
    return taken & (places == last[owner])


def _shift(view: View, computed: Tensor, taken: Tensor, owner: Tensor) -> tuple[int | None, int]:
    """By how many tokens the recorded numbers stand late (+1) or early (−1), and how many agree then."""
    values, mask = view.values.double(), view.batch.response_mask
    filled = torch.where(mask, computed, 0.0)
    beside = owner[1:] == owner[:-1]
    for shift, here, there in ((1, slice(1, None), slice(None, -1)), (-1, slice(None, -1), slice(1, None))):
        both = beside & taken[here] & torch.isfinite(filled[there])
        error = (values[here] - filled[there]).abs()
        allowed = view.precision.rtol * values[here].abs() + view.slack[owner[here]]
        agree = both & (error <= allowed)
        told = agree & (filled[there] != 0)
        if int(told.sum()) > 2 and int(agree.sum()) >= _MOVED * int(both.sum()):
            return shift, int(agree.sum())
    return None, 0


def _correlation(one: Tensor, other: Tensor) -> float | None:
    if one.shape[0] < 3 or not bool(one.std() > 0) or not bool(other.std() > 0):
        return None
    found = float(torch.corrcoef(torch.stack([one, other]))[0, 1])
    return found if math.isfinite(found) else None
