"""What must hold for any batch: laws of the registry, of the recursion, of groups and of whitening."""

import math
import random
from dataclasses import replace

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from torch import Tensor

from estimators import CONVENTIONS, ESTIMATORS, Batch, Refused, Request, Result, estimate, whiten_rollouts
from estimators.moments import Moments, merge_all, of_values
from tests.estimators.strategies import NUMBERS, Rows, law, rows

EVERY = [{"convention": name} for name in CONVENTIONS] + [{"estimator": name} for name in ESTIMATORS]


def params_of(body: dict[str, str]) -> object:
    return Request.from_dict(body).params


#: A baseline that moves with every rollout depends on their order.
UNORDERED = [body for body in EVERY if "rae" not in str(body)]
#: Where rollouts without an unmasked token stand in no statistics.
ISOLATED = [body for body in EVERY if getattr(params_of(body), "fully_masked", "exclude") == "exclude"]
#: What divides by a spread or a mean that rounding noise can make up all by itself.
DIVIDING = (
    "grpo/",
    "grpo'",
    "passk",
    "vectorized",
    "gdpo",
    "batch_z",
    "running",
    "maxrl",
    "lite",
    "baseline",
)
STEADY = [body for body in EVERY if "dr_grpo" in str(body) or not any(w in str(body) for w in DIVIDING)]
#: A reward on a masked token counts in verl's group estimators: it is no secret input there.
RECURSIVE = [
    {"convention": name}
    for name in (
        "gae/verl",
        "gae/openrlhf",
        "gae/nemo",
        "gae/areal",
        "td_error",
        "reward_to_go",
        "reinforce_plus_plus/verl",
        "reinforce_plus_plus/openrlhf",
        "remax/verl",
        "optimal_token_baseline/verl",
        "tir_optimal_token_baseline/verl",
    )
] + [{"estimator": "gae"}]


def run(batch: Batch, body: dict[str, str], **more: object) -> Result:
    """The estimate, or the example is put aside where the batch is refused (too few tokens to whiten)."""
    try:
        return estimate(batch, Request.from_dict({**body, **more}))
    except Refused:
        assume(False)
        raise


def same(mine: Tensor, wanted: Tensor, tolerance: float = 1e-8) -> None:
    torch.testing.assert_close(mine, wanted, rtol=tolerance, atol=tolerance, equal_nan=True)


def on_rollouts(result: Result, batch: Batch) -> list[Tensor]:
    """The advantages of each rollout, unmasked tokens only."""
    if not result.per_token:
        return list(result.advantages.unbind())
    parts = torch.split(result.advantages, batch.lengths.tolist())
    masks = torch.split(batch.response_mask, batch.lengths.tolist())
    return [part[mask] for part, mask in zip(parts, masks, strict=True)]


@law
@given(rows(), st.sampled_from(UNORDERED), st.integers(0, 99))
def test_the_order_of_rollouts_does_not_matter(case: Rows, body: dict[str, str], seed: int) -> None:
    order = list(range(len(case.mask)))
    random.Random(seed).shuffle(order)
    first, second = case.batch(), case.take(order).batch()
    before, after = on_rollouts(run(first, body), first), on_rollouts(run(second, body), second)
    for place, source in enumerate(order):
        same(after[place], before[source])


@law
@given(rows(), st.sampled_from(RECURSIVE))
def test_masked_tokens_never_reach_unmasked_ones(case: Rows, body: dict[str, str]) -> None:
    batch = case.batch()
    assume(not _row_without_rewards(case))
    assert batch.values is not None and batch.token_level_rewards is not None
    poisoned = replace(
        batch,
        values=torch.where(batch.response_mask, batch.values, torch.nan),
        token_level_rewards=torch.where(batch.response_mask, batch.token_level_rewards, torch.nan),
    )
    assume(all(any(mask) for mask in case.mask))
    clean, dirty = run(batch, body), run(poisoned, body)
    for mine, wanted in zip(on_rollouts(dirty, batch), on_rollouts(clean, batch), strict=True):
        same(mine, wanted)


def _row_without_rewards(case: Rows) -> bool:
    """A rollout all of whose token rewards are NaN counts as having none, and gets its score instead."""
    seen = [
        [r for r, m in zip(row, mask, strict=True) if m]
        for row, mask in zip(case.rewards, case.mask, strict=True)
    ]
    return any(all(math.isnan(r) for r in row) for row in (*seen, *case.rewards))


@law
@given(rows(), st.sampled_from(ISOLATED), st.integers(0, 3))
def test_empty_rollouts_change_nothing(case: Rows, body: dict[str, str], where: int) -> None:
    batch = case.batch()
    before = on_rollouts(run(batch, body), batch)
    at = min(where, len(case.mask))
    longer = Rows(
        [*case.mask[:at], [], [False] * 3, *case.mask[at:]],
        [*case.rewards[:at], [], [1.0] * 3, *case.rewards[at:]],
        [*case.values[:at], [], [1.0] * 3, *case.values[at:]],
        [*case.scores[:at], 5.0, 5.0, *case.scores[at:]],
        [*case.groups[:at], "new", "new", *case.groups[at:]],
    )
    bigger = longer.batch()
    after = on_rollouts(run(bigger, body), bigger)
    for mine, wanted in zip(after[:at] + after[at + 2 :], before, strict=True):
        same(mine, wanted)


@law
@given(rows(finite=True), st.sampled_from([{"estimator": "grpo"}, {"estimator": "dr_grpo"}]), NUMBERS)
def test_group_advantages_sum_to_zero_and_ignore_an_offset(
    case: Rows, body: dict[str, str], offset: float
) -> None:
    batch = case.scored()
    result = run(batch, body)
    moved = run(replace(batch, scores=batch.scores + offset), body)
    same(moved.advantages, result.advantages, 1e-7)
    count = int(batch.group.max()) + 1 if batch.rollouts else 0
    sums = torch.zeros(count, dtype=torch.float64).index_add_(0, batch.group, result.advantages)
    same(sums, torch.zeros_like(sums))


@law
@given(rows(finite=True), st.sampled_from([0.25, 3.0, 100.0]))
def test_scaled_scores(case: Rows, factor: float) -> None:
    batch = case.scored()
    larger = replace(batch, scores=batch.scores * factor)
    centred = run(larger, {"estimator": "dr_grpo"}).advantages
    same(centred, run(batch, {"estimator": "dr_grpo"}).advantages * factor)
    none = {"params": {"epsilon": 0}}
    same(
        run(larger, {"estimator": "grpo"}, **none).advantages,
        run(batch, {"estimator": "grpo"}, **none).advantages,
    )


@law
@given(rows(finite=True), st.sampled_from(["skip", "zero", "plain"]), st.sampled_from([0.3, 1.0]))
def test_gae_at_the_ends_of_gamma_and_lambda(case: Rows, masked_tokens: str, other: float) -> None:
    batch = case.batch()
    assert batch.values is not None and batch.token_level_rewards is not None
    params = {"masked_tokens": masked_tokens}
    myopic = run(batch, {"estimator": "gae"}, params={**params, "gamma": 0, "lam": other})
    taken = batch.response_mask
    same(myopic.advantages[taken], (batch.token_level_rewards - batch.values)[taken])
    # λ = 1: the return is the discounted sum of rewards, whatever the critic says.
    full = run(batch, {"estimator": "gae"}, params={**params, "gamma": other, "lam": 1})
    blind = run(
        replace(batch, values=torch.zeros_like(batch.values)),
        {"estimator": "gae"},
        params={**params, "gamma": other, "lam": 1},
    )
    assert full.returns is not None
    same(full.returns[taken], blind.advantages[taken])


@law
@given(
    rows(finite=True, least=1), st.sampled_from(["group", "batch"]), st.sampled_from(["token", "response"])
)
def test_whitening_twice_is_whitening_once(case: Rows, scope: str, unit: str) -> None:
    batch = case.batch()
    whitening = {"scope": scope, "unit": unit, "eps": 0}
    first = run(batch, {"estimator": "td_error"}, whitening=whitening)
    # With γ = 0 and no rewards the TD error is −V: the critic's values become any advantages we like.
    again = replace(
        batch, values=-first.advantages, token_level_rewards=torch.zeros(batch.tokens, dtype=torch.float64)
    )
    second = run(again, {"estimator": "td_error"}, params={"gamma": 0}, whitening=whitening)
    same(second.advantages, first.advantages, 1e-6)


@law
@given(rows(least=1), st.sampled_from(["none", "group", "batch"]), st.sampled_from(["token", "response"]))
def test_moments_of_rollouts_are_enough_to_whiten(case: Rows, scope: str, unit: str) -> None:
    batch = case.batch()
    result = run(batch, {"estimator": "gae"}, whitening={"scope": scope, "unit": unit})
    seen = result.summaries
    request = Request.from_dict({"estimator": "gae", "whitening": {"scope": scope, "unit": unit}})
    ids = batch.group if scope == "group" else None
    means = whiten_rollouts(seen.raw_mean, seen.raw_m2, seen.count, ids, request.whitening)
    same(means, seen.mean)


@law
@given(rows(), st.sampled_from(EVERY))
def test_summaries_are_those_of_the_advantages(case: Rows, body: dict[str, str]) -> None:
    batch = case.batch()
    result = run(batch, body)
    for i, part in enumerate(on_rollouts(result, batch)):
        unmasked = sum(case.mask[i])
        tokens = part if result.per_token else part.expand(unmasked)
        kept = tokens[torch.isfinite(tokens)]
        assert result.summaries.count[i] == kept.numel()
        if not kept.numel():
            assert bool(torch.isnan(result.summaries.mean[i]))
            continue
        same(result.summaries.mean[i], kept.mean())
        same(result.summaries.min[i], kept.min())
        same(result.summaries.max[i], kept.max())
        same(result.summaries.total_abs[i], kept.abs().sum())


@law
@given(rows(), st.sampled_from(EVERY))
def test_the_moments_are_those_of_all_raw_advantages(case: Rows, body: dict[str, str]) -> None:
    batch = case.batch()
    result = run(batch, body)
    raw = result.advantages_raw if result.per_token else result.advantages_raw[batch.rollout_of_token]
    whole = of_values(raw[batch.response_mask])
    agree(result.moments["token"], whole)
    params = Request.from_dict(body).params
    everyone = not result.per_token and getattr(params, "fully_masked", "exclude") == "vote"
    agree(
        result.moments["response"],
        of_values(result.advantages_raw if everyone else result.summaries.raw_mean),
    )


def agree(mine: Moments, wanted: Moments) -> None:
    assert mine.count == wanted.count
    assert mine.mean == pytest.approx(wanted.mean, abs=1e-9)
    assert mine.m2 == pytest.approx(wanted.m2, abs=1e-7)


@law
@given(st.lists(st.lists(st.floats(-1e6, 1e6), max_size=6), max_size=6))
def test_moments_of_parts_merge_into_those_of_the_whole(parts: list[list[float]]) -> None:
    every = [x for part in parts for x in part]
    merged = merge_all(of_values(torch.tensor(part, dtype=torch.float64)) for part in parts)
    whole = of_values(torch.tensor(every, dtype=torch.float64))
    assert merged.count == whole.count == len(every)
    assert merged.mean == pytest.approx(whole.mean, rel=1e-9, abs=1e-6)
    assert merged.m2 == pytest.approx(whole.m2, rel=1e-9, abs=1e-3)


@law
@given(rows(least=1), st.sampled_from(["token", "response"]))
def test_running_over_steps_is_batch_over_all_of_them(case: Rows, unit: str) -> None:
    batch = case.batch()
    cut = len(case.mask) // 2
    early, late = case.take(list(range(cut))).batch(), case.take(list(range(cut, len(case.mask)))).batch()
    whole = run(batch, {"estimator": "gae"}, whitening={"scope": "batch", "unit": unit})
    history = [run(early, {"estimator": "gae"}).moments[unit]]
    request = Request.from_dict({"estimator": "gae", "whitening": {"scope": "running", "unit": unit}})
    same(estimate(late, request, history).advantages, whole.advantages[early.tokens :])


@pytest.mark.parametrize("body", EVERY, ids=str)
def test_no_rollouts_at_all(body: dict[str, str]) -> None:
    batch = Rows([], [], [], [], []).batch()
    try:
        result = estimate(batch, Request.from_dict(body))
    except Refused as refusal:
        assert " 0" in str(refusal)
    else:
        assert result.advantages.numel() == 0 and result.moments["token"] == Moments()


@law
@given(rows(finite=True, least=2), st.sampled_from(STEADY))
def test_float32_is_float64_to_seven_digits(case: Rows, body: dict[str, str]) -> None:
    batch = case.batch()
    single, double = run(batch, body, precision="float32"), run(batch, body)
    assert single.advantages.dtype == torch.float32
    spread = float(double.advantages.abs().max()) if double.advantages.numel() else 0.0
    torch.testing.assert_close(
        single.advantages.double(), double.advantages, rtol=1e-4, atol=1e-4 * (1 + spread)
    )
