"""From a batch and a request to advantages: run the estimator, whiten, sum up per rollout."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from estimators.batch import Batch
from estimators.estimator import Estimator
from estimators.masked import compress, segment_extremes, segment_sums, valid_counts
from estimators.moments import Moments, by_scope
from estimators.registry import ESTIMATORS
from estimators.request import Request
from estimators.whitening import Affine, Whitening, rollout_affine, scope_ids


@dataclass(frozen=True, slots=True)
class Summaries:
    """Per rollout, `[B]` float64, over the unmasked tokens whose advantage is a number; NaN where none is.

    count                      those tokens (0, not NaN, where there is none)
    mean, min, max, total_abs  of the advantages as asked for; total_abs = Σ|A|
    raw_mean, raw_m2           of the advantages before whitening
    """

    count: Tensor
    mean: Tensor
    raw_mean: Tensor
    raw_m2: Tensor
    min: Tensor
    max: Tensor
    total_abs: Tensor


@dataclass(frozen=True, slots=True)
class Result:
    """What `estimate` gives.

    advantages, advantages_raw  `[N]` where per_token, else `[B]`; NaN: unscored, or input not finite
    returns          `[N]` or None
    moments          of the raw advantages: "token" over unmasked tokens, "response" over rollouts' means
    """

    advantages: Tensor
    advantages_raw: Tensor
    per_token: bool
    returns: Tensor | None
    moments: dict[str, Moments]
    summaries: Summaries


def missing(batch: Batch, request: Request) -> tuple[str, ...]:
    """The fields that the request needs and the batch lacks, by the name they have in a file."""
    lacking = [name for name in ESTIMATORS[request.estimator].needs if not _has(batch, name)]
    params = request.params
    if getattr(params, "kl_coef", 0) and batch.kl is None:
        lacking += [name for name in ("old_log_probs", "ref_log_probs") if not _has(batch, name)]
    if getattr(params, "reward_weights", None) is not None and not batch.components:
        lacking.append("reward_components")
    if request.whitening.scope in ("data_source", "rank") and not _has(batch, request.whitening.scope):
        lacking.append(request.whitening.scope)
    return tuple(lacking)


def usable(batch: Batch) -> tuple[Estimator, ...]:
    """The estimators whose needs the batch meets."""
    return tuple(each for each in ESTIMATORS.values() if all(_has(batch, name) for name in each.needs))


def _has(batch: Batch, name: str) -> bool:
    if name == "reward":
        recorded = batch.token_level_rewards is not None or batch.token_level_scores is not None
        return recorded or bool(batch.components) or bool(torch.isfinite(batch.scores).any())
    return getattr(batch, name) is not None


def estimate(batch: Batch, request: Request, history: Sequence[Moments] = ()) -> Result:
    """Computes the request on the batch, on the device the batch is on.

    `history`: for the running scope, the moments of the run's earlier steps in the whitening's unit.
    Raises Refused with a sentence where the batch does not allow it.
    """
    raw = ESTIMATORS[request.estimator].run(batch, request.params, request.dtype)
    before = raw.advantages
    count, mean, m2, least, greatest = _rollout_moments(before, raw.per_token, batch)
    affine = _affine(mean, m2, count, batch, request.whitening, history)
    after = before if affine is None else _apply(before, affine, raw.per_token, batch)
    masked = ~batch.response_mask if raw.per_token and request.whitening.zero_masked else None
    if masked is not None and bool(masked.any()):
        after = torch.where(masked, 0.0, after)
    return Result(
        after,
        before,
        raw.per_token,
        raw.returns,
        _both_units(count, mean, m2),
        _summaries(after, raw.per_token, batch, affine, (count, mean, m2, least, greatest)),
    )


def _affine(
    mean: Tensor, m2: Tensor, count: Tensor, batch: Batch, setting: Whitening, history: Sequence[Moments]
) -> Affine | None:
    if setting.scope == "none":
        return None
    return rollout_affine(mean, m2, count, scope_ids(batch, setting.scope), setting, history)


def _apply(values: Tensor, affine: Affine, per_token: bool, batch: Batch) -> Tensor:
    """Each rollout's affine map on its own values, in their dtype."""
    centre, factor, back = (part.to(values.dtype) for part in (affine.centre, affine.factor, affine.back))
    if per_token:
        owner = batch.rollout_of_token
        centre, factor, back = centre[owner], factor[owner], back[owner]
    return (values - centre).mul_(factor).add_(back)


def _rollout_moments(
    values: Tensor, per_token: bool, batch: Batch
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """(count, mean, m2, min, max) of each rollout's finite unmasked advantages, `[B]` float64 each."""
    unmasked = valid_counts(batch.response_mask, batch.offsets)
    if not per_token:
        count = torch.where(torch.isfinite(values), unmasked, 0).double()
        value = torch.where(count > 0, values.double(), torch.nan)
        return count, value, torch.where(count > 0, 0.0, torch.nan).double(), value, value
    taken = batch.response_mask & torch.isfinite(values)
    kept, counts = compress(values, taken), valid_counts(taken, batch.offsets)
    offsets = torch.cat((counts.new_zeros(1), torch.cumsum(counts, 0)))
    count = counts.double()
    mean = segment_sums(kept, offsets) / count
    m2 = segment_sums((kept.double() - torch.repeat_interleave(mean, counts)).square(), offsets)
    least, greatest = segment_extremes(kept, offsets)
    return count, mean, torch.where(count > 0, m2, torch.nan), least, greatest


def _both_units(count: Tensor, mean: Tensor, m2: Tensor) -> dict[str, Moments]:
    one = torch.zeros(count.shape[0], dtype=torch.int64, device=count.device)
    pairs = {"token": (m2, count), "response": (torch.zeros_like(m2), (count > 0).double())}
    found = {}
    for unit, (squares, weight) in pairs.items():
        total, centre, deviation = by_scope(mean, squares, weight, one, 1)
        found[unit] = Moments(float(total[0]), float(centre[0]), float(deviation[0]))
    return found


def _summaries(
    after: Tensor, per_token: bool, batch: Batch, affine: Affine | None, raw: tuple[Tensor, ...]
) -> Summaries:
    """Mean, least and greatest follow from the raw ones: whitening keeps their order."""
    count, mean, m2, least, greatest = raw
    if affine is None:
        final, low, high = mean, least, greatest
    else:
        final, low, high = (
            (part - affine.centre) * affine.factor + affine.back for part in (mean, least, greatest)
        )
    if per_token:
        taken = batch.response_mask & torch.isfinite(after)
        total = segment_sums(torch.where(taken, after, 0.0).abs(), batch.offsets)
        total = torch.where(count > 0, total, torch.nan)
    else:
        total = final.abs() * count
    return Summaries(count, final, mean, m2, low, high, total)
