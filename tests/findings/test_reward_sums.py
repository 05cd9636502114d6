"""Token rewards that sum up to another number than the reward, where the file does not explain it."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.findings.memory import codes_of

Row = dict[str, Any]
Random = np.random.Generator
CODE = "reward_sum_mismatch"
SEEDS = range(12)


def honest(random: Random, field: str = "token_level_rewards", values: int = 5) -> list[Row]:
    """Groups whose reward stands on the last trainable token; responses with observations in them."""
    rows = []
    for group in range(int(random.integers(2, 6))):
        for _ in range(int(random.integers(3, 7))):
            reward = float(random.integers(values)) / 4 + 0.05
            mask = np.ones(int(random.integers(5, 30)), dtype=int)
            mask[2:4] = 0
            tokens = np.zeros(mask.size)
            tokens[-1] = reward
            row = {"group_id": f"g{group}", "reward": reward, "response_mask": mask, field: tokens}
            rows.append(row | {"response_ids": random.integers(9, 99, mask.size)})
    return rows


def said(rows: list[Row], header: dict[str, Any] | None = None) -> dict[str, Any] | None:
    return codes_of(rows, header).get(CODE)


def last(row: Row, value: float) -> None:
    row["token_level_rewards"] = np.append(np.zeros(row["response_mask"].size - 1), value)


def changed(rule: Callable[[float, int], float]) -> Callable[[list[Row]], None]:
    """What the token rewards become, of the reward and the place."""

    def change(rows: list[Row]) -> None:
        for place, row in enumerate(rows):
            last(row, rule(row["reward"], place))

    return change


def log_probs(random: Random, row: Row) -> Any:
    size = row["response_mask"].size
    row["old_log_probs"] = -random.exponential(0.5, size)
    row["ref_log_probs"] = row["old_log_probs"] + random.normal(0, 0.2, size)
    return row["old_log_probs"] - row["ref_log_probs"]


def with_kl(random: Random, rows: list[Row], kept: bool) -> None:
    coefficient, kind = float(random.uniform(0.001, 0.2)), int(random.integers(3))
    for row in rows:
        d = log_probs(random, row)
        kl = [d, np.abs(d), np.exp(-d) - 1 + d][kind]
        row["token_level_rewards"] = row["token_level_rewards"] - coefficient * kl * row["response_mask"]
        if not kept:
            del row["ref_log_probs"]


def rounded(rows: list[Row]) -> None:
    for row in rows:
        bits = np.asarray(row["token_level_rewards"], dtype=np.float32).view(np.uint32)
        row["token_level_rewards"] = (bits & np.uint32(0xFFFF0000)).view(np.float32)


def on_an_observation(rows: list[Row]) -> None:
    for row in rows:
        row["token_level_rewards"][2] = 0.5  # masked: only the sum over all tokens differs


def in_pieces(rows: list[Row]) -> None:
    """Each two rows are one rollout, whose reward stands on the second."""
    for number, (one, other) in enumerate(zip(rows[::2], rows[1::2], strict=False)):
        one |= {"rollout_id": f"r{number}", "segment": 0, "reward": other["reward"]}
        other |= {"rollout_id": f"r{number}", "segment": 1}
        last(one, 0.0)


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_is_said_of_what_the_file_explains(seed: int) -> None:
    random = np.random.default_rng([seed, 1])
    changes: list[tuple[Callable[[list[Row]], None], dict[str, Any]]] = [
        (lambda rows: None, {}),
        (lambda rows: with_kl(random, rows, True), {}),
        (lambda rows: with_kl(random, rows, False), {}),
        (rounded, {}),
        (on_an_observation, {}),
        (in_pieces, {}),
        (changed(lambda reward, _: 2.5 * reward), {"reward_scale": 2.5}),
        (
            changed(lambda reward, _: (reward - 0.5) * 10),
            {"actor": {"reward_scaling": 10.0, "reward_bias": -0.5}},
        ),
        (changed(lambda reward, _: min(reward, 0.7)), {"reward_clip": 0.7}),
        (changed(lambda reward, place: reward * 0.9 ** (place % 3)), {"turn_discount": 0.9}),
    ]
    for change, header in changes:
        rows = honest(random)
        change(rows)
        assert said(rows, header) is None, (change, header)


@pytest.mark.parametrize("seed", SEEDS)
def test_rewards_before_a_penalty_are_held_against_the_reward(seed: int) -> None:
    random = np.random.default_rng([seed, 2])
    rows = honest(random, "token_level_scores")
    for row in rows:
        row["token_level_rewards"] = row["token_level_scores"] - 0.3  # whatever was taken off
    assert said(rows) is None
    rows[1]["token_level_scores"] = rows[1]["token_level_scores"] * 0.0
    found = said(rows)
    assert (
        found is not None and found["rollouts"] == [1] and found["evidence"]["field"] == "token_level_scores"
    )


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    ("change", "reading"),
    [
        (changed(lambda reward, _: 0.5 * reward), "scaled"),
        (changed(lambda reward, _: 2 * reward - 1), "scaled and shifted"),
        (lambda rows: _cut_off(rows), "cut_off"),
        (lambda rows: _normalised(rows), "normalised"),
        (lambda rows: _mean_of_turns(rows), "mean"),
    ],
)
def test_a_usual_thing_to_do_is_a_note(seed: int, change: Callable[[list[Row]], None], reading: str) -> None:
    random = np.random.default_rng([seed, 3])
    rows = honest(random)
    rows[0]["reward"], rows[1]["reward"], rows[2]["reward"] = 0.25, 1.0, 0.0
    for row in rows:
        last(row, row["reward"])
    change(rows)
    found = said(rows)
    assert found is not None and found["severity"] == "info", found
    assert found["evidence"]["reading"] == reading


@pytest.mark.parametrize("seed", SEEDS)
def test_a_constant_or_a_part_that_is_missing_is_a_warning(seed: int) -> None:
    random = np.random.default_rng([seed, 4])
    offset = float(random.uniform(0.05, 0.5))
    rows = honest(random)
    for row in rows:
        row["reward"] += offset
    found = said(rows, {"clip_ratio": offset, "weight_decay": offset})
    assert found is not None and found["severity"] == "warning"
    assert found["evidence"]["reading"] == "shifted"
    assert found["evidence"]["offset"] == pytest.approx(-offset)
    assert found["evidence"]["centred_difference"] == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_component_that_is_not_on_the_tokens_is_named(seed: int) -> None:
    random = np.random.default_rng([seed, 5])
    rows = honest(random)
    for row in rows:
        bonus = float(random.integers(3)) / 10
        row["reward_components"] = {"answer": row["reward"], "style": 2 * bonus, "length": 0.0}
        row["reward"] += bonus
    rows[0]["reward_components"]["style"] += 0.2
    rows[0]["reward"] += 0.1
    found = said(rows, {"reward_weights": [1, 0.5, 1]})
    assert found is not None and found["severity"] == "warning"
    assert found["evidence"]["left_out"] == ["style"]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_few_rollouts_that_differ_are_named(seed: int) -> None:
    random = np.random.default_rng([seed, 6])
    rows = honest(random)
    wrong = sorted(random.choice(len(rows), 2, replace=False).tolist())
    for place, change in zip(wrong, (0.4, -0.3), strict=True):
        last(rows[place], rows[place]["reward"] + change)
    found = said(rows)
    assert found is not None and found["severity"] == "warning" and found["rollouts"] == wrong
    assert found["evidence"]["reading"] is None and found["evidence"]["differing"] == 2


def test_a_reward_on_every_token_is_counted_as_often() -> None:
    rows = honest(np.random.default_rng(7))
    for row in rows:
        row["token_level_rewards"] = np.full(row["response_mask"].size, row["reward"])
    found = said(rows)
    assert found is not None and found["evidence"]["reading"] == "on_every_token"


def _cut_off(rows: list[Row]) -> None:
    for place, row in enumerate(rows):
        row["truncated"] = place % 3 == 1
        if row["truncated"]:
            last(row, 0.0)


def _normalised(rows: list[Row]) -> None:
    rewards = np.array([row["reward"] for row in rows])
    for row in rows:
        last(row, float((row["reward"] - rewards.mean()) / (rewards.std(ddof=1) + 1e-6)))


def _mean_of_turns(rows: list[Row]) -> None:
    for place, row in enumerate(rows):
        tokens = np.zeros(row["response_mask"].size)
        tokens[[1, -1]] = row["reward"] - 0.125 * (place % 4), row["reward"] + 0.125 * (place % 4)
        row["token_level_rewards"] = tokens
