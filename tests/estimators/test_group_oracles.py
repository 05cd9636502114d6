"""The estimators that compare rollouts give what slow loops give, and what was decided of the odd ones."""

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from estimators import ESTIMATORS, Batch, Refused, Request, Result, estimate
from estimators.dpo_implicit_reward import preference_pairs
from estimators.groups import factorize, integer_ids
from tests.estimators.build import batch_of
from tests.estimators.strategies import GROUPS, NUMBERS, law
from tests.oracles import groups as oracle

Scored = list[tuple[float, str, int]]
#: Score, group and unmasked tokens of each rollout.
SCORED = st.lists(st.tuples(NUMBERS, GROUPS, st.integers(0, 4)), min_size=1, max_size=12)


def batch(case: Scored, **more: Any) -> Batch:
    """Every rollout has a masked token behind its unmasked ones."""
    mask = [[1] * length + [0] for _, _, length in case]
    return batch_of(mask, [group for _, group, _ in case], [score for score, _, _ in case], **more)


def run(case: Batch, body: dict[str, Any], **params: Any) -> Result:
    return estimate(case, Request.from_dict({**body, "params": params}))


def close(mine: torch.Tensor, wanted: Sequence[float], tolerance: float = 1e-9) -> None:
    expected = torch.tensor(wanted, dtype=torch.float64)
    torch.testing.assert_close(mine, expected, rtol=tolerance, atol=tolerance, equal_nan=True)


@law
@given(SCORED)
def test_centring_estimators(case: Scored) -> None:
    scores, groups, lengths = (list(column) for column in zip(*case, strict=True))
    made = batch(case)
    close(run(made, {"convention": "rloo/verl"}).advantages, oracle.rloo(scores, groups, raw=True))
    close(run(made, {"convention": "rloo/skyrl"}).advantages, oracle.rloo(scores, groups, raw=False))
    close(run(made, {"convention": "opo/verl"}).advantages, oracle.opo(scores, groups, lengths))
    close(run(made, {"convention": "gpg/verl"}, f_norm=2).advantages, oracle.gpg(scores, groups, 2.0))
    close(run(made, {"convention": "maxrl/prime-rl"}).advantages, oracle.maxrl(scores, groups), 1e-7)


@law
@given(SCORED)
def test_scaling_estimators(case: Scored) -> None:
    scores, groups, _ = (list(column) for column in zip(*case, strict=True))
    made = batch(case)
    loo = oracle.leave_one_out(scores, groups, 1e-6)
    close(run(made, {"convention": "grpo/nemo-loo"}).advantages, loo, 1e-6)
    passk = run(made, {"convention": "grpo_passk/verl"}, singleton="zero")
    close(passk.advantages, oracle.passk(scores, groups, 1e-6), 1e-6)
    close(run(made, {"convention": "batch_z/rllm"}).advantages, oracle.batch_z(scores, 0, 1e-6), 1e-6)
    close(run(made, {"convention": "batch_z/areal"}).advantages, oracle.batch_z(scores, 1, 1e-5), 1e-6)


@law
@given(SCORED, st.integers(0, 12))
def test_running_over_steps(case: Scored, cut: int) -> None:
    steps = [part for part in (case[:cut], case[cut:]) if part]
    wanted = oracle.running([[score for score, _, _ in step] for step in steps], 1e-6)
    state = None
    for step, numbers in zip(steps, wanted, strict=True):
        request = Request.from_dict({"convention": "running/roll"})
        close(estimate(batch(step), request, state=state).advantages, numbers, 1e-6)
        carry = ESTIMATORS["running"].carry
        assert carry is not None
        state = carry(batch(step), request.params, state or {})


@law
@given(SCORED, st.integers(0, 12))
def test_rae_goes_on_where_the_last_step_ended(case: Scored, cut: int) -> None:
    scores, tasks, _ = (list(column) for column in zip(*case, strict=True))
    request = Request.from_dict({"convention": "rae/prime-rl"})
    found: list[float] = []
    state, carry = None, ESTIMATORS["rae"].carry
    assert carry is not None
    for step in (case[:cut], case[cut:]):
        if step:
            made = batch(step, data_source=[task for _, task, _ in step])
            found += estimate(made, request, state=state).advantages.tolist()
            state = carry(made, request.params, state or {})
    close(torch.tensor(found, dtype=torch.float64), oracle.rae(scores, tasks, 0.95))


@law
@given(
    st.lists(st.lists(NUMBERS, min_size=1, max_size=5), min_size=1, max_size=5), st.sampled_from([0.5, 1.0])
)
def test_process_supervision(steps: list[list[float]], gamma: float) -> None:
    made = batch_of([[1] * len(row) for row in steps], ["g"] * len(steps), token_level_rewards=steps)
    body = {"convention": "process_grpo/atropos"}
    if len({reward for row in steps for reward in row}) == 1:
        with pytest.raises(Refused, match="equal"):
            run(made, body, gamma=gamma)
        assert not bool(run(made, body, gamma=gamma, constant="zero").advantages.any())
        return
    wanted = [value for row in oracle.process(steps, gamma) for value in row]
    close(run(made, body, gamma=gamma).advantages, wanted, 1e-8)


@law
@given(SCORED)
def test_preference_pairs(case: Scored) -> None:
    scores, groups, _ = (list(column) for column in zip(*case, strict=True))
    pairs = preference_pairs(torch.tensor(scores, dtype=torch.float64), factorize(groups)[0])
    found = list(zip(pairs.chosen.tolist(), pairs.rejected.tolist(), strict=True))
    assert found == oracle.best_and_worst(scores, groups)


def test_the_implicit_reward_and_its_margin() -> None:
    made = batch_of(
        [[1, 1], [1, 0]],
        ["g", "g"],
        [0.0, 1.0],
        old_log_probs=[[-1.0, -2.0], [-1.0, -1.0]],
        ref_log_probs=[[-1.5, -1.0], [-3.0, -9.0]],
    )
    track = run(made, {"convention": "dpo_implicit_reward"}, beta=0.5).advantages
    close(track, [0.25, -0.5, 1.0, 0.0])
    pairs = preference_pairs(made.scores, made.group, track, made)
    assert (pairs.chosen.tolist(), pairs.rejected.tolist()) == ([1], [0])
    assert pairs.margin is not None
    close(pairs.margin, [1.25])


def test_groups_by_position_and_what_is_left_over() -> None:
    made = batch_of([[1]] * 5, list("abcde"), [1.0, 0.0, 3.0, 1.0, 0.5], index=[4, 3, 2, 1, 0])
    body = {"estimator": "dr_grpo"}
    # In the order of the file: 0.5 1 | 3 0 | 1.
    close(run(made, body, group_size=2).advantages, [0.0, -1.5, 1.5, 0.25, -0.25])
    close(run(made, body, group_size=2, incomplete="raw").advantages, [1.0, -1.5, 1.5, 0.25, -0.25])
    close(run(made, body, group_size=2, incomplete="batch").advantages, [-0.1, -1.1, 1.9, -0.1, -0.6])
    close(run(made, body, group_size=5, group_count=1).advantages, [-0.1, -1.1, 1.9, -0.1, -0.6])
    with pytest.raises(Refused, match="5 rollouts cannot be cut into groups of 2; 1"):
        run(made, body, group_size=2, incomplete="refuse")
    areal = run(made, {"convention": "grpo/areal"}, group_size=2).advantages
    assert areal[0] == pytest.approx(1e5)


def test_the_last_segment_stands_for_its_rollout() -> None:
    made = batch_of(
        [[1]] * 4, ["g"] * 4, [9.0, 1.0, 5.0, 0.0], rollout_id=["a", "a", "b", "b"], segment=[1, 2, 1, 0]
    )
    each = run(made, {"estimator": "dr_grpo"}).advantages
    close(each, [5.25, -2.75, 1.25, -3.75])
    # Segment 2 of a scores 1, segment 1 of b scores 5; their rollouts' other segments get the same.
    close(run(made, {"convention": "dr_grpo/verl"}).advantages, [-2.0, -2.0, 2.0, 2.0])


@pytest.mark.parametrize("name", ["grpo_passk/verl", "grpo/openrlhf", "rloo/openrlhf", "dr_grpo/openrlhf"])
def test_what_refuses_groups_of_one_says_so_and_can_be_asked_otherwise(name: str) -> None:
    made = batch_of([[1]] * 3, ["a", "a", "b"], [1.0, 0.0, 3.0])
    with pytest.raises(Refused, match="groups of one rollout, and 1 of the batch's 2 groups"):
        run(made, {"convention": name})
    assert run(made, {"convention": name}, singleton="zero").advantages[2] == 0
    assert run(made, {"convention": name}, singleton="raw").advantages[2] == pytest.approx(3.0)


def test_undefined_groups_of_one() -> None:
    made = batch_of([[1]] * 3, ["a", "a", "b"], [1.0, 0.0, 3.0])
    for name in ("grpo/slime", "grpo/roll"):
        assert bool(run(made, {"convention": name}).advantages[2].isnan())


def test_penalties_for_length() -> None:
    made = batch_of([[1] * 4, [1] * 10, [1] * 8], [*"abc"], [1.0, 1.0, -1.0], truncated=[False, True, False])
    raw = {"convention": "dr_grpo/verl"}
    ramp = {"overlong_tokens": 4, "max_response_length": 8}
    close(run(made, raw, **ramp).advantages, [1.0, -0.5, -2.0])
    close(run(made, raw, **ramp, overlong_capped=True).advantages, [1.0, 0.0, -2.0])
    close(run(made, raw, stop_properly_penalty_coef=0.25).advantages, [1.0, 0.25, -1.0])
    close(run(made, raw, stop_properly_penalty_coef=-2).advantages, [1.0, -2.0, -1.0])
    close(run(made, raw, reward_bias=1, reward_scaling=2, reward_clip_range=[0.5, 3]).advantages, [3, 3, 0.5])


def test_unscored_rollouts_stay_out_of_the_scores_of_responses() -> None:
    components = {"a": [1.0, 0.0, 2.0, None], "b": [0.0, 1.0, None, None]}
    made = batch_of([[1]] * 4, ["g"] * 4, components=components)
    found = run(made, {"convention": "gdpo/trl"})
    assert found.advantages[3] == 0
    assert found.advantages[:3].mean().item() == pytest.approx(0.0, abs=1e-12)


def test_labels_read_as_whole_numbers() -> None:
    assert integer_ids(["01", "1", "7"]).tolist() == [0, 0, 1]
    assert integer_ids([0.25, 0.75, 1.5]).tolist() == [0, 0, 1]
    assert integer_ids(["0.25", "0.75"]).tolist() == [0, 1]
    assert integer_ids(["1e3", "1000", "1.2", "1"]).tolist() == [0, 1, 2, 3]
    assert integer_ids(["1_0", "10", " 10\n", "+10"]).tolist() == [0, 0, 0, 0]
    assert integer_ids(["01", "1", "x"]).tolist() == [0, 1, 2]
    assert integer_ids(["nan", "1"]).tolist() == [0, 1]
    assert integer_ids(["9" * 25, "0" + "9" * 25]).tolist() == [0, 1]
