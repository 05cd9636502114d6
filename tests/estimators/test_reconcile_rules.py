"""The rules by which formulas are passed over hold on every batch of theirs."""

from dataclasses import replace

import pytest
import torch

from estimators import CONVENTIONS, Convention, Request, estimate, reconcile_search
from estimators.reconcile import Recorded, reconcile
from estimators.reconcile_recorded import View
from estimators.reconcile_rules import broken_groups, rules_of
from estimators.reconcile_sample import SMALL
from estimators.reconcile_stack import stacked
from estimators.refused import Refused
from estimators.registry import ESTIMATORS
from estimators.rewards import rollout_scores
from tests.estimators.reconcile_batches import generated, one_turn


def _key(convention: Convention) -> str:
    return f"{convention.estimator} {convention.params!r}"


def test_what_is_called_a_line_of_the_scores_is_one() -> None:
    lined = 0
    for seed, convention in enumerate(CONVENTIONS.values()):
        rules = rules_of(
            convention.estimator, convention.params, repr(convention.params) + convention.estimator
        )
        if rules is None or not rules.lined:
            continue
        batch = one_turn(seed)
        raw = ESTIMATORS[convention.estimator].run(batch, convention.params, torch.float64).advantages
        view = View(batch, Recorded(raw, False))
        scores, every = (
            rollout_scores(batch, convention.params),
            torch.ones_like(batch.group, dtype=torch.bool),
        )
        broken, telling = broken_groups(scores, batch.group, view, every)
        assert (broken, telling) == (0, 8), convention.name
        lined += 1
    assert lined > 30


def test_a_long_batch_gives_each_part_its_own_numbers() -> None:
    first, apart = generated(5), 0
    assert first.values is not None
    parts = [first, replace(first, values=first.values.flip(0))]
    for convention in CONVENTIONS.values():
        key = repr(convention.params) + convention.estimator
        rules, run = (
            rules_of(convention.estimator, convention.params, key),
            ESTIMATORS[convention.estimator].run,
        )
        if rules is None or not rules.apart:
            continue
        try:
            whole = run(stacked(parts), convention.params, torch.float64).advantages
        except Refused:
            continue
        each = torch.cat([run(part, convention.params, torch.float64).advantages for part in parts])
        assert torch.allclose(whole, each, 1e-9, 1e-9, equal_nan=True), convention.name
        apart += 1
    assert apart > 30


def test_one_number_per_rollout_of_a_large_batch_is_traced_although_it_has_values() -> None:
    batch = replace(
        generated(4, groups=120, size=4, width=400, old_log_probs=None, ref_log_probs=None, components={}),
        sum_pi_squared=None,
    )
    assert batch.tokens > SMALL
    advantages = estimate(batch, Request.from_dict({"convention": "rloo/verl"})).advantages
    found = reconcile(batch, Recorded(advantages, False))
    assert ("rloo/verl", None) in [
        (each.convention, each.mistake) for each in found.candidates if each.matched
    ]


@pytest.mark.parametrize("mistake", ["stride_grouping:6", "group_split:2_dealt", "bf16_rewards"])
def test_a_mistake_is_named_from_numbers_per_rollout_where_groups_are_sampled(
    mistake: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reconcile_search, "SMALL", 0)
    batch = replace(generated(4, groups=41, size=6, width=8), rank=None)
    place = torch.arange(batch.rollouts)
    coarse = {"scores": batch.scores.bfloat16().double(), "token_level_rewards": None}
    wrong = {
        "stride_grouping:6": replace(batch, group=place // 6),
        "group_split:2_dealt": replace(batch, group=batch.group * 2 + place % 2),
        "bf16_rewards": replace(batch, **coarse),  # type: ignore[arg-type] # tensors and None
    }[mistake]
    made = estimate(wrong, Request.from_dict({"convention": "rloo/verl"})).advantages
    found = reconcile(batch, Recorded(made.float(), False))
    named = [(each.convention, each.mistake) for each in found.candidates if each.matched]
    assert ("rloo/verl", mistake) in named
