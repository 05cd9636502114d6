"""What is compared: a framework's function, and the request that is to give the same numbers."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from agreement_batches import Padded
from torch import Tensor

from estimators import Batch, Refused, Request, estimate, token_loss_weights
from estimators.groups import integer_ids

#: Largest |difference| / max(1, max |A|) in double precision, in single, and where only rounding is divided.
DOUBLE, SINGLE, NOISE = 1e-9, 2e-5, 1e-2

#: Estimators that compare rollouts.
GROUPED = (
    "grpo",
    "dr_grpo",
    "rloo",
    "opo",
    "gpg",
    "maxrl",
    "batch_z",
    "gdpo",
    "reinforce_plus_plus_baseline",
)

Peer = Callable[[Padded], Tensor]


@dataclass(frozen=True)
class Pair:
    """peer       the framework's advantages, `[B, T]` or `[B]`; ValueError or AssertionError where it refuses
    request    the body of an estimate, or what gives it for a batch
    batch      the batch that a file of it would be
    fits       the batches it is for
    single     compared in single precision too; double: in double precision
    by_float   the framework itself rounds to single precision on the way
    on_masked  masked tokens are compared too
    """

    name: str
    peer: Peer
    request: dict[str, Any] | Callable[[Padded], dict[str, Any]]
    batch: Callable[[Padded], Batch] = Padded.batch
    fits: Callable[[Padded], bool] = lambda given: True
    single: bool = True
    by_float: bool = False
    on_masked: bool = False
    ours: Callable[[Padded], Tensor] | None = None
    double: bool = True


@dataclass
class Tally:
    """Over all batches: the largest error and where it was, errors being |difference| / max(1, max |A|)."""

    worst: float = 0.0
    where: str = ""
    batches: int = 0
    refused: int = 0
    equal: int = 0
    failures: list[str] = field(default_factory=list)


def compare(pair: Pair, given: Padded, single: bool, tally: Tally) -> None:
    """One batch, added to the tally."""
    if not pair.fits(given):
        return
    seen = replace(given.single(), mask=given.mask.float()) if single else given
    if (_odd(seen) and not _spoils(pair, seen)) or (
        single and "equal" in given.what and _residue(pair, given)
    ):
        return
    theirs, ours = _theirs(pair, seen), _ours(pair, seen, single)
    tally.batches += 1
    allowed = DOUBLE
    if theirs is None or ours is None:
        tally.refused += 1
        if theirs is not ours and not (ours is None and "huge" in given.what):
            who = "the framework" if theirs is None else "ours"
            tally.failures.append(f"{given.what}: only {who} refuses")
        return
    error = _error(theirs.double(), ours.double(), given, pair.on_masked)
    tally.equal += error == 0.0
    rounds = single or pair.by_float
    if rounds and _nothing_left(pair, given):
        allowed = NOISE
    elif "huge" in given.what:
        allowed = max(DOUBLE, 1e-12 * _largest(given))
    elif rounds:
        allowed = max(SINGLE, 1e-6 * _largest(given))
    if error > tally.worst and (not rounds or allowed == SINGLE):
        tally.worst, tally.where = error, given.what
    if not error <= allowed:
        tally.failures.append(f"{given.what}: {error:.2e}")


def _residue(pair: Pair, given: Padded) -> bool:
    """Whether what rounding leaves of equal rewards is whitened over the batch: that is not the same bits."""
    body = pair.request(given) if callable(pair.request) else pair.request
    return str(body.get("convention", "")).startswith(("reinforce_plus_plus/", "gdpo/"))


def _odd(given: Padded) -> bool:
    return not bool(given.scores.isfinite().all())


def _spoils(pair: Pair, given: Padded) -> bool:
    """Whether scores that are not finite spoil the same in both: where rollouts are compared with each other,
    and the score stands on no masked token, where ours leaves it out."""
    body = pair.request(given) if callable(pair.request) else pair.request
    compares = str(body.get("convention", "")).startswith(GROUPED)
    return compares and bool(given.rewards[given.mask == 0].isfinite().all())


def _theirs(pair: Pair, given: Padded) -> Tensor | None:
    try:
        return pair.peer(replace(given, rewards=given.rewards.clone(), scores=given.scores.clone()))
    except (ValueError, AssertionError, ZeroDivisionError):
        return None


def _ours(pair: Pair, given: Padded, single: bool) -> Tensor | None:
    if pair.ours is not None:
        return pair.ours(given)
    body = pair.request(given) if callable(pair.request) else pair.request
    batch = pair.batch(given)
    request = Request.from_dict({**body, "precision": "float32" if single else "float64"})
    if request.grouping == "integer_id":
        batch = replace(batch, group=integer_ids(given.index.tolist()))
    try:
        result = estimate(batch, request)
    except Refused:
        return None
    found = result.advantages
    if result.per_token:
        return found.reshape(given.rollouts, -1)
    return torch.where(given.mask.bool(), found[:, None], 0.0)


def _error(theirs: Tensor, ours: Tensor, given: Padded, on_masked: bool) -> float:
    if theirs.ndim == 1:
        theirs = theirs[:, None].expand(given.mask.shape)
        on_masked = False
    keep = torch.ones_like(given.mask, dtype=torch.bool) if on_masked else given.mask.bool()
    a, b = theirs[keep], ours[keep]
    same = (a == b) | (a.isnan() & b.isnan())
    if bool(same.all()):
        return 0.0
    gap = torch.where(same, 0.0, (a - b).abs())
    scale = max(1.0, float(a[a.isfinite()].abs().max())) if bool(a.isfinite().any()) else 1.0
    return float(gap.nan_to_num(float("inf")).max()) / scale


def _largest(given: Padded) -> float:
    """The largest reward: single precision resolves 6e-8 of it, and that much is left where a mean of its
    size is taken off and the rest divided by a spread of order 1."""
    return float(given.rewards.abs().sum(1).max())


def _nothing_left(pair: Pair, given: Padded) -> bool:
    """Whether every advantage is all but 0 in double precision: what single precision divides is rounding."""
    exact = _ours(pair, given, single=False)
    return exact is not None and not bool((exact[given.mask.bool()].abs() > 1e-4).any())


def weights_of_losses(mode: str, factor: float | None) -> Callable[[Padded], Tensor]:
    """The loss that our weights make of the values as losses, as a matrix of that one number."""

    def ours(given: Padded) -> Tensor:
        weights = token_loss_weights(given.batch(), mode, factor).reshape(given.rollouts, -1)
        return (weights * given.values.double()).sum().expand(given.mask.shape)

    return ours
