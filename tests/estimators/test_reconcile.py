"""Recorded advantages are traced back to the convention, or the mistake, that made them."""

import math
import pkgutil
import time
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from estimators import CONVENTIONS, Batch, Refused, Request, estimate, mistakes, reconcile_search
from estimators.estimate import missing
from estimators.mistakes import MISTAKES
from estimators.mistakes.shifting import shifted
from estimators.reconcile import Candidate, Hints, Reconciliation, Recorded, TooLong, reconcile
from estimators.reconcile_sample import LARGEST
from tests.estimators.reconcile_batches import generated, one_turn


def made_by(name: str, batch: Batch, **params: Any) -> Tensor:
    """Advantages per token as the convention computes them."""
    given = {"convention": name, "params": params}
    result = estimate(batch, Request.from_dict(given))
    if result.per_token:
        return result.advantages
    return result.advantages.repeat_interleave(batch.lengths)


def traced(batch: Batch, advantages: Tensor, hints: Hints | None = None) -> Reconciliation:
    return reconcile(batch, Recorded(advantages, True), hints or Hints())


def agreeing(found: Reconciliation) -> list[tuple[str, str | None]]:
    return [(each.convention, each.mistake) for each in found.candidates if each.matched]


def best(found: Reconciliation) -> Candidate:
    return found.candidates[0]


@pytest.mark.parametrize("name", CONVENTIONS)
def test_a_convention_is_named(name: str) -> None:
    batch, convention = generated(), CONVENTIONS[name]
    request = Request(convention.estimator, convention.params, convention.whitening)
    if missing(batch, request):
        pytest.skip("the batch lacks a field of this convention")
    try:
        advantages = made_by(name, batch)
    except Refused:
        pytest.skip("the convention refuses the batch")
    if not bool(torch.isfinite(advantages).any()):
        pytest.skip("the convention says nothing of the batch")
    found = traced(batch, advantages.float())
    assert (name, None) in agreeing(found)
    assert best(found).mistake is None
    assert found.verdict == (
        "match" if best(found).convention == name and not found.deciding else "ambiguous"
    )


def test_gamma_and_lambda_are_read_off_the_numbers() -> None:
    batch = generated()
    found = traced(batch, made_by("gae/openrlhf", batch, gamma=0.987, lam=0.93))
    assert (found.verdict, best(found).convention) == ("match", "gae/openrlhf")
    assert best(found).request["params"]["gamma"] == pytest.approx(0.987)
    assert best(found).request["params"]["lam"] == pytest.approx(0.93)


def test_a_configuration_that_the_numbers_contradict_is_said() -> None:
    batch = generated()
    found = traced(batch, made_by("gae/openrlhf", batch, gamma=1.0, lam=0.9), Hints(params={"lam": 0.95}))
    assert "λ 0.9 (the file says 0.95)" in best(found).explanation


def test_only_settings_that_change_something_are_said() -> None:
    batch = one_turn()
    half = made_by("dr_grpo/verl", batch, reward_weights={"right": 0.5, "style": 0.0})
    told = {"reward_weights": {"right": 0.5, "style": 0.0}, "num_generations": 4}
    said = best(traced(batch, half, Hints(params=told))).explanation
    assert "reward_weights (right 0.5, style 0)" in said and "group_size" not in said
    # The reward is what these weights make of the components anyway.
    plain = replace(batch, components={"right": batch.scores, "style": batch.scores * 0})
    told = {"reward_weights": {"right": 1.0, "style": 1.0}, "num_generations": 4}
    said = best(traced(plain, made_by("dr_grpo/verl", plain), Hints(params=told))).explanation
    assert "reward_weights" not in said and "group_size" not in said


def test_ambiguity_says_what_would_decide() -> None:
    batch = one_turn()
    found = traced(batch, made_by("dr_grpo/verl", batch))
    names = {name for name, _ in agreeing(found)}
    assert found.verdict == "ambiguous" and {"dr_grpo/verl", "dr_grpo/trl"} <= names
    assert found.deciding is not None and found.deciding.startswith("A group of one rollout would decide")


def test_bfloat16_numbers_match_within_their_precision() -> None:
    batch = generated()
    found = traced(batch, made_by("gae/openrlhf", batch).bfloat16().float())
    assert found.precision == "bfloat16" and ("gae/openrlhf", None) in agreeing(found)


def test_one_number_per_rollout_is_enough() -> None:
    batch = generated()
    result = estimate(batch, Request.from_dict({"convention": "grpo/trl-group"}))
    found = reconcile(batch, Recorded(result.advantages, False))
    assert found.recorded == "rollout" and best(found).convention == "grpo/trl-group"


def test_nothing_recorded_and_nothing_that_fits() -> None:
    batch = generated()
    assert traced(batch, torch.full((batch.tokens,), math.nan)).verdict == "nothing_recorded"
    noise = torch.randn(batch.rollouts, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    found = traced(batch, noise.repeat_interleave(batch.lengths))
    assert found.verdict == "no_match" and not agreeing(found)
    assert best(found).failing and "nor anything like them" in found.explanation
    assert all(each.mistake is None for each in found.candidates)


def test_a_constant_is_no_scaled_advantage() -> None:
    batch = generated()
    found = traced(batch, torch.full((batch.tokens,), 0.5, dtype=torch.float64))
    assert found.verdict == "no_match" and not agreeing(found)


def test_a_search_ends_when_its_time_is_over() -> None:
    batch = generated()
    recorded = Recorded(made_by("grpo/verl", batch), True)
    with pytest.raises(TooLong):
        reconcile(batch, recorded, until=time.monotonic() - 1)


def test_few_rollouts_that_disagree_are_named() -> None:
    batch = generated()
    advantages = made_by("grpo/verl", batch)
    advantages[batch.offsets[5] : batch.offsets[6]] += 0.5
    found = traced(batch, advantages)
    assert found.verdict == "no_match" and best(found).failing == (5,)
    assert "Nearest comes" in found.explanation


def _regrouped(batch: Batch, group: Tensor) -> Tensor:
    return made_by("grpo/verl", replace(batch, group=group))


def _whitened(values: Tensor, weight: Tensor, ddof: int = 1) -> Tensor:
    count = weight.sum()
    mean = (values * weight).sum() / count
    variance = ((values - mean).square() * weight).sum() / (count - ddof)
    return (values - mean) / (variance + 1e-8).sqrt()


def _per_rank(batch: Batch) -> Tensor:
    raw = made_by("rloo/verl", batch)
    assert batch.rank is not None
    rank, out = batch.rank.repeat_interleave(batch.lengths), torch.zeros_like(raw)
    for number in (0, 1, 2):
        inside = (rank == number) & batch.response_mask
        out[rank == number] = _whitened(raw, inside.double())[rank == number]
    return out


def _padded(batch: Batch) -> Tensor:
    raw, width = made_by("rloo/verl", batch) * batch.response_mask, int(batch.lengths.max())
    padding = torch.zeros(batch.rollouts * width - batch.tokens, dtype=torch.float64)
    cells = torch.cat([raw, padding])
    return _whitened(cells, torch.ones_like(cells))[: batch.tokens]


def _moved(batch: Batch, name: str, steps: int) -> Batch:
    changes: dict[str, Any] = {name: shifted(getattr(batch, name), batch, steps)}
    return replace(batch, **changes)


def _gae(batch: Batch) -> Tensor:
    return made_by("gae/openrlhf", batch, gamma=0.99, lam=0.9)


def _with_kl(batch: Batch, times: float) -> Batch:
    scores = batch.token_level_rewards
    assert scores is not None and batch.old_log_probs is not None and batch.ref_log_probs is not None
    kl = (batch.old_log_probs - batch.ref_log_probs) * batch.response_mask
    return replace(batch, token_level_scores=scores, token_level_rewards=scores - times * 0.05 * kl)


def _made_wrong(name: str) -> tuple[Batch, Tensor]:
    """A batch, and advantages that were made on it with the mistake."""
    batch = generated()
    place = torch.arange(batch.rollouts)
    kl, rank = _with_kl(batch, 1), batch.rank
    assert rank is not None
    made = {
        "group_split": lambda: (batch, _regrouped(batch, batch.group * 3 + rank)),
        "stride_grouping:4": lambda: (batch, _regrouped(batch, place // 4)),
        "batch_grouping": lambda: (batch, made_by("rloo/verl", replace(batch, group=place * 0))),
        "rank_whitening": lambda: (batch, _per_rank(batch)),
        "padding_counted": lambda: (batch, _padded(batch)),
        "values_shifted:1": lambda: (batch, _gae(_moved(batch, "values", 1))),
        "values_shifted:-1": lambda: (batch, _gae(_moved(batch, "values", -1))),
        "mask_shifted:1": lambda: (batch, _gae(_moved(batch, "response_mask", 1))),
        "reward_past_end": lambda: (batch, _gae(_moved(batch, "token_level_rewards", 1))),
        "kl_left_out": lambda: (kl, _gae(batch)),
        "kl_counted_twice": lambda: (kl, _gae(_with_kl(batch, 2))),
        "sign_flipped": lambda: (batch, -made_by("grpo/trl-group", batch)),
        "scaled:2.5": lambda: (batch, 2.5 * made_by("rloo/verl", batch)),
        "offset:0.125": lambda: (batch, 0.125 + made_by("grpo/trl-group", batch)),
        "wrong_eps:0.0125": lambda: (batch, made_by("grpo/verl", batch, epsilon=0.0125)),
        "wrong_eps:0.001": lambda: (batch, made_by("grpo/verl", batch, epsilon=1e-3)),
    }
    return made[name]()


#: Mistakes that are made here; the others are made in `test_reconcile_mistakes`.
WRONG = (
    "group_split",
    "stride_grouping:4",
    "batch_grouping",
    "rank_whitening",
    "padding_counted",
    "values_shifted:1",
    "values_shifted:-1",
    "mask_shifted:1",
    "reward_past_end",
    "kl_left_out",
    "kl_counted_twice",
    "sign_flipped",
    "scaled:2.5",
    "offset:0.125",
    "wrong_eps:0.0125",
    "wrong_eps:0.001",
)


@pytest.mark.parametrize("name", WRONG)
def test_a_mistake_is_named(name: str) -> None:
    batch, advantages = _made_wrong(name)
    found = traced(batch, advantages)
    assert best(found).matched and best(found).mistake == name


def test_grouping_by_prompt_text_is_named() -> None:
    batch = generated()
    prompt = batch.group // 2
    found = traced(batch, _regrouped(batch, prompt), Hints(prompt=prompt))
    assert best(found).mistake == "prompt_grouping"


def test_every_mistake_of_the_folder_is_registered() -> None:
    helpers = {"mistake", "shifting", "rescaling"}
    files = {module.name for module in pkgutil.iter_modules(mistakes.__path__)} - helpers
    assert files == set(MISTAKES)


def test_groups_too_large_to_be_looked_at_many_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reconcile_search, "SMALL", 0)
    batch = generated(3, groups=2, size=LARGEST + 8, width=4)
    found = traced(batch, made_by("optimal_token_baseline/verl", batch))
    assert best(found).matched and best(found).convention == "optimal_token_baseline/verl"
