"""From a batch and a request to advantages: run the estimator, whiten, sum up per rollout."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import torch
from torch import Tensor

from estimators.batch import Batch
from estimators.estimator import Estimator, Raw, State
from estimators.every import in_loss, kept, take, weighted
from estimators.masked import repeated
from estimators.moments import Moments, merged
from estimators.registry import ESTIMATORS
from estimators.request import Request
from estimators.rewards import one_weight
from estimators.shape import response_moments
from estimators.tokens import RolloutMoments, absolute_sums, map_tokens, token_moments
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
    params = request.params
    needs = set(ESTIMATORS[request.estimator].needs)
    if getattr(params, "without_values", "refuse") == "zero":
        needs.discard("values")
    lacking = [
        name for name in ESTIMATORS[request.estimator].needs if name in needs and not _has(batch, name)
    ]
    if getattr(params, "beta", 0) and batch.kl is None:
        lacking += [name for name in ("old_log_probs", "ref_log_probs") if not _has(batch, name)]
    if params.truncation != "keep" and batch.truncated is None:
        lacking.append("truncated")
    weights = getattr(params, "reward_weights", None)
    if weights is not None and not batch.components and not one_weight(weights):
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


def estimate(
    batch: Batch, request: Request, history: Sequence[Moments] = (), state: State | None = None
) -> Result:
    """Computes the request on the batch, on the device the batch is on.

    history  for the running scope: the moments of the run's earlier steps in the whitening's unit
    state    for estimators with `carry`: what the earlier steps left behind, None for the first

    Raises Refused with a sentence where the batch does not allow it.
    """
    keep = kept(batch, request.params)
    if keep is not None:
        return _restored(estimate(take(batch, keep), request, history, state), keep, batch)
    chosen = ESTIMATORS[request.estimator]
    more = () if chosen.carry is None else (state,)
    raw = chosen.run(batch, request.params, request.dtype, *more)
    before, setting, seen = raw.advantages, request.whitening, in_loss(batch, request.params)
    moments = token_moments(before, seen) if raw.per_token else _rollout_moments(before, seen)
    affine = _affine(raw, seen, moments, setting, history)
    if raw.per_token:
        after = map_tokens(before, affine, seen, setting.zero_masked)
    else:
        after = before if affine is None else affine.apply(before)
    summaries = _summaries(moments, affine, _total(after, raw, seen, moments))
    if setting.clip is not None:
        after = after.clamp(-setting.clip, setting.clip)
        summaries = _changed(summaries, after, raw, seen)
    if request.params.loss_agg_mode is not None:
        after = weighted(after, raw.per_token, seen, request.params)
        summaries = _changed(summaries, after, raw, seen)
    return Result(after, before, raw.per_token, raw.returns, _both_units(moments, raw), summaries)


def _affine(
    raw: Raw, batch: Batch, moments: RolloutMoments, setting: Whitening, history: Sequence[Moments]
) -> Affine | None:
    """What whitening does to each rollout, or None where there is none."""
    if setting.scope == "none":
        return None
    ids = scope_ids(batch, setting.scope)
    cells = _mean_of_cells(raw, batch) if setting.mean_scope == "cells" else None
    voting = response_moments(raw) if setting.unit == "response" else None
    count, mean, m2 = voting or (moments.count, moments.mean, moments.m2)
    count = count if raw.apart is None else torch.where(raw.apart, 0.0, count)
    if raw.spoilt is not None:
        # Counted with a mean of NaN, so that the whole scope is NaN, as the framework's sum would be.
        live = raw.spoilt if voting else raw.spoilt & batch.trained
        count, mean = torch.where(live, 1.0, count), torch.where(live, torch.nan, mean)
    affine = rollout_affine(mean, m2, count, ids, setting, history, groups=batch.group, of_cells=cells)
    return affine if raw.apart is None else affine.leaving(raw.apart)


def _mean_of_cells(raw: Raw, batch: Batch) -> float:
    """Mean of the advantages as a padded matrix: what masked tokens hold counts, and padding as 0."""
    cells = batch.rollouts * int(batch.lengths.max()) if batch.rollouts else 0
    every = raw.advantages.double() if raw.per_token else raw.advantages.double() * batch.unmasked
    return float(every.nan_to_num(0.0, 0.0, 0.0).sum()) / max(cells, 1)


def _total(after: Tensor, raw: Raw, batch: Batch, moments: RolloutMoments) -> Tensor:
    """Σ|A| over each rollout's unmasked tokens, `[B]`; NaN where there is none."""
    total = absolute_sums(after, batch) if raw.per_token else after.double().abs() * moments.count
    return torch.where(moments.count > 0, total, torch.nan)


def _restored(result: Result, keep: Tensor, batch: Batch) -> Result:
    """The result on the rollouts `keep`, NaN on the others of the batch."""
    tokens = repeated(keep, batch.lengths)

    def spread(values: Tensor, where: Tensor) -> Tensor:
        out = torch.full(where.shape, torch.nan, dtype=values.dtype, device=values.device)
        out[where] = values
        return out

    which = tokens if result.per_token else keep
    parts = {each.name: spread(getattr(result.summaries, each.name), keep) for each in fields(Summaries)}
    parts["count"] = parts["count"].nan_to_num(0.0)
    return replace(
        result,
        advantages=spread(result.advantages, which),
        advantages_raw=spread(result.advantages_raw, which),
        returns=None if result.returns is None else spread(result.returns, tokens),
        summaries=Summaries(**parts),
    )


def _rollout_moments(values: Tensor, batch: Batch) -> RolloutMoments:
    """Moments where every token of a rollout carries the same number, `values` `[B]`."""
    unmasked = batch.unmasked
    count = torch.where(torch.isfinite(values), unmasked, 0).double()
    value = torch.where(count > 0, values.double(), torch.nan)
    return RolloutMoments(count, value, torch.where(count > 0, 0.0, torch.nan).double(), value, value)


def _both_units(moments: RolloutMoments, raw: Raw) -> dict[str, Moments]:
    count, mean, m2 = moments.count, moments.mean, moments.m2
    number, each, _ = response_moments(raw) or (count, mean, m2)
    once = merged(each, torch.zeros_like(each), (number > 0).double())
    return {"token": merged(mean, m2, count), "response": once}


def _changed(summaries: Summaries, after: Tensor, raw: Raw, batch: Batch) -> Summaries:
    """With mean, extremes and total of `after`, where whitening was not the last thing done."""
    found = token_moments(after, batch) if raw.per_token else _rollout_moments(after, batch)
    total = _total(after, raw, batch, found)
    return replace(summaries, mean=found.mean, min=found.least, max=found.greatest, total_abs=total)


def _summaries(moments: RolloutMoments, affine: Affine | None, total: Tensor) -> Summaries:
    """Mean, least and greatest follow from the raw ones: whitening keeps their order."""
    raw = (moments.mean, moments.least, moments.greatest)
    mean, least, greatest = raw if affine is None else (affine.apply(part) for part in raw)
    return Summaries(moments.count, mean, moments.mean, moments.m2, least, greatest, total)
