"""Nothing is called a mistake that rounding, a legal option or the configuration explains."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from estimators import Batch, Request, estimate, reconcile_search
from estimators.mistakes.shifting import shifted
from estimators.reconcile import Hints, Reconciliation, Recorded, reconcile
from tests.estimators.reconcile_batches import generated

VERL = Hints(convention="grpo/verl", framework="verl")


def rewarded(scores: Tensor, sizes: list[int]) -> Batch:
    """Groups side by side of three tokens a rollout, with nothing recorded but one reward each."""
    count = scores.shape[0]
    return Batch(
        offsets=torch.arange(count + 1) * 3,
        response_mask=torch.ones(3 * count, dtype=torch.bool),
        group=torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes)),
        scores=scores.double(),
    )


def by_group(batch: Batch, scale: bool) -> Tensor:
    """A group at a time in float32, as verl's `compute_grpo_outcome_advantage` does."""
    rewards, found = batch.scores.float(), torch.zeros(batch.rollouts)
    for number in range(int(batch.group.max()) + 1):
        own = batch.group == number
        centred = rewards[own] - rewards[own].mean()
        found[own] = centred / (rewards[own].std() + 1e-6) if scale else centred
    return found.repeat_interleave(batch.lengths)


def constant_among_others(value: float, size: int, seed: int) -> Batch:
    draw = torch.Generator().manual_seed(seed)
    scores = torch.cat([torch.full((size,), value), torch.rand(5 * size, generator=draw)])
    return rewarded(scores, [size] * 6)


def traced(batch: Batch, advantages: Tensor, hints: Hints) -> Reconciliation:
    return reconcile(batch, Recorded(advantages, True), hints)


@pytest.mark.parametrize("hints", [VERL, Hints()], ids=["configured", "nothing said"])
@pytest.mark.parametrize("size", [8, 16])
@pytest.mark.parametrize("value", [0.1, 0.3, 0.7, 100.1])
def test_residue_of_a_constant_group_accuses_nobody(value: float, size: int, hints: Hints) -> None:
    for seed in range(3):
        batch = constant_among_others(value, size, seed)
        found = traced(batch, by_group(batch, scale=True), hints)
        assert all(each.mistake is None for each in found.candidates if each.matched)
        assert "grpo/verl" in [each.convention for each in found.candidates if each.matched]
        if hints is VERL:
            assert found.verdict == "match"


@pytest.mark.parametrize("value", [0.1, 0.7, 100.1])
def test_residue_of_a_centred_group_is_no_offset(value: float) -> None:
    hints = Hints(convention="dr_grpo/trl", framework="trl", params={"scale_rewards": "none"})
    for given in (hints, Hints()):
        batch = constant_among_others(value, 8, 4)
        found = traced(batch, by_group(batch, scale=False), given)
        assert {each.mistake for each in found.candidates if each.matched} == {None}
        assert "dr_grpo/trl" in [each.convention for each in found.candidates if each.matched]


def test_what_is_no_residue_of_a_constant_group_is_seen() -> None:
    batch = constant_among_others(0.1, 8, 1)
    advantages = by_group(batch, scale=True)
    advantages[:24] = 3.0  # no rounding lies so many deviations off
    assert traced(batch, advantages, VERL).verdict == "no_match"


def test_what_is_configured_is_the_answer_whatever_else_would_fit() -> None:
    batch = generated()
    params = {"gamma": 1.0, "lam": 1.0}
    request = Request.from_dict({"convention": "gae/verl", "params": params})
    advantages = estimate(batch, request).advantages
    hints = Hints(convention="gae/verl", framework="verl", params=params)
    found = traced(batch, advantages, hints)
    assert (found.verdict, [each.convention for each in found.candidates]) == ("match", ["gae/verl"])
    assert found.candidates[0].contradicts == ()


@pytest.mark.parametrize(
    ("convention", "configured", "used", "name"),
    [
        ("gae/verl", {"gamma": 1.0, "lam": 0.95}, {"gamma": 0.9, "lam": 0.95}, "gamma"),
        ("gae/verl", {"gamma": 1.0, "lam": 0.95}, {"gamma": 1.0, "lam": 0.5}, "lam"),
        ("reinforce_plus_plus/verl", {"gamma": 1.0}, {"gamma": 0.9}, "gamma"),
    ],
)
def test_a_setting_that_contradicts_the_configuration_is_told(
    convention: str, configured: dict[str, float], used: dict[str, float], name: str
) -> None:
    batch = generated()
    advantages = estimate(batch, Request.from_dict({"convention": convention, "params": used})).advantages
    hints = Hints(convention=convention, framework="verl", params=configured)
    first = traced(batch, advantages.float(), hints).candidates[0]
    assert (first.convention, first.mistake, first.matched) == (convention, None, True)
    (told,) = first.contradicts
    assert (told.name, told.configured, told.said) == (name, configured[name], True)
    assert told.recorded == pytest.approx(used[name])


def test_where_nothing_is_configured_a_discount_is_a_fact() -> None:
    batch = generated()
    request = {"convention": "gae/verl", "params": {"gamma": 0.9, "lam": 0.95}}
    advantages = estimate(batch, Request.from_dict(request)).advantages
    for hints in (Hints(), Hints(convention="gae/verl", framework="verl")):
        assert all(not each.contradicts for each in traced(batch, advantages, hints).candidates)


def test_a_constant_of_an_unknown_framework_is_a_fact_and_no_mistake() -> None:
    batch = replace(constant_among_others(0.25, 8, 2), rank=None)
    advantages = by_group(batch, scale=False) + 0.1
    first = traced(batch, advantages, Hints(foreign=True)).candidates[0]
    assert first.matched and not first.proved and first.mistake is not None
    assert first.mistake.startswith("offset:0.1") and first.convention.startswith("dr_grpo")


def test_a_mistake_on_what_is_configured_is_proved() -> None:
    batch = constant_among_others(0.25, 8, 2)
    advantages = -by_group(batch, scale=True)
    first = traced(batch, advantages, VERL).candidates[0]
    assert (first.convention, first.mistake, first.proved) == ("grpo/verl", "sign_flipped", True)


def test_a_mistake_in_a_batch_too_long_to_be_looked_at_whole_is_proved(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reconcile_search, "SMALL", 0)
    batch = generated(groups=60)
    assert batch.values is not None
    late = replace(batch, values=shifted(batch.values, batch, 1))
    request = Request.from_dict({"convention": "gae/verl", "params": {"gamma": 0.99, "lam": 0.9}})
    hints = Hints(convention="gae/verl", framework="verl", params={"gamma": 0.99, "lam": 0.9})
    first = traced(batch, estimate(late, request).advantages, hints).candidates[0]
    assert (first.convention, first.mistake, first.proved) == ("gae/verl", "values_shifted:1", True)
