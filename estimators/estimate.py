"""From a batch and a request to advantages: run the estimator, whiten, sum up per rollout."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from estimators.batch import Batch
from estimators.estimator import Estimator
from estimators.moments import Moments, merged
from estimators.registry import ESTIMATORS
from estimators.request import Request
from estimators.tokens import RolloutMoments, absolute_sums, map_tokens, token_moments
from estimators.whitening import Affine, rollout_affine, scope_ids


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
    if getattr(params, "beta", 0) and batch.kl is None:
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
    before, setting = raw.advantages, request.whitening
    moments = token_moments(before, batch) if raw.per_token else _rollout_moments(before, batch)
    affine = None
    if setting.scope != "none":
        ids = scope_ids(batch, setting.scope)
        affine = rollout_affine(moments.mean, moments.m2, moments.count, ids, setting, history, batch.group)
    if raw.per_token:
        after = map_tokens(before, affine, batch, setting.zero_masked)
    else:
        after = before if affine is None else affine.apply(before)
    if setting.clip is not None:
        after = after.clamp(-setting.clip, setting.clip)
    total = absolute_sums(after, batch) if raw.per_token else after.double().abs() * moments.count
    summaries = _summaries(moments, affine, torch.where(moments.count > 0, total, torch.nan))
    if setting.clip is not None:
        summaries = _clipped(summaries, after, raw.per_token, batch)
    return Result(after, before, raw.per_token, raw.returns, _both_units(moments), summaries)


def _rollout_moments(values: Tensor, batch: Batch) -> RolloutMoments:
    """Moments where every token of a rollout carries the same number, `values` `[B]`."""
    unmasked = batch.unmasked
    count = torch.where(torch.isfinite(values), unmasked, 0).double()
    value = torch.where(count > 0, values.double(), torch.nan)
    return RolloutMoments(count, value, torch.where(count > 0, 0.0, torch.nan).double(), value, value)


def _both_units(moments: RolloutMoments) -> dict[str, Moments]:
    count, mean, m2 = moments.count, moments.mean, moments.m2
    once = (count > 0).double()
    return {"token": merged(mean, m2, count), "response": merged(mean, torch.zeros_like(m2), once)}


def _clipped(summaries: Summaries, after: Tensor, per_token: bool, batch: Batch) -> Summaries:
    """With the mean and the extremes of what is left after clipping."""
    found = token_moments(after, batch) if per_token else _rollout_moments(after, batch)
    return replace(summaries, mean=found.mean, min=found.least, max=found.greatest)


def _summaries(moments: RolloutMoments, affine: Affine | None, total: Tensor) -> Summaries:
    """Mean, least and greatest follow from the raw ones: whitening keeps their order."""
    raw = (moments.mean, moments.least, moments.greatest)
    mean, least, greatest = raw if affine is None else (affine.apply(part) for part in raw)
    return Summaries(moments.count, mean, moments.mean, moments.m2, least, greatest, total)
