"""A gap between trainer and sampler that stands in one turn only is named with that turn."""

from typing import Any

import numpy as np
import pytest

from tests.findings.memory import codes_of

Row = dict[str, Any]
Random = np.random.Generator
CODE = "log_prob_gap_in_turn"
SEEDS = range(16)


def rollouts(random: Random, turns: int | None = None, noise: float | None = None) -> list[Row]:
    """Rollouts of several turns, with log-probs that differ as kernels and a stale update leave it."""
    noise = float(random.uniform(0.002, 0.04)) if noise is None else noise
    rows: list[Row] = []
    for group in range(int(random.integers(2, 5))):
        for _ in range(int(random.integers(3, 7))):
            count = turns or int(random.integers(2, 6))
            mask = [bit for _ in range(count) for bit in [1] * int(random.integers(3, 15)) + [0] * 3]
            sampler = -random.exponential(0.6, len(mask)) - 0.05
            drift = random.standard_t(5, len(mask)) * noise
            rows.append(
                {
                    "group_id": f"g{group}",
                    "reward": float(random.integers(2)),
                    "response_mask": np.array(mask),
                    "rollout_log_probs": sampler,
                    "old_log_probs": np.minimum(sampler + drift, 0.0),
                }
            )
    return rows


def spans(row: Row) -> list[tuple[int, int]]:
    """First and last token of each turn."""
    edges = np.diff(np.concatenate([[0], row["response_mask"], [0]]))
    return list(
        zip(np.flatnonzero(edges == 1).tolist(), (np.flatnonzero(edges == -1) - 1).tolist(), strict=True)
    )


def shake(random: Random, row: Row, turn: int, size: float) -> None:
    start, end = spans(row)[turn]
    row["rollout_log_probs"][start : end + 1] -= random.exponential(size, end + 1 - start) + size / 2


def said(rows: list[Row]) -> dict[str, Any] | None:
    return codes_of(rows).get(CODE)


@pytest.mark.parametrize("seed", SEEDS)
def test_healthy_turns_are_left_alone(seed: int) -> None:
    random = np.random.default_rng([seed, 1])
    assert said(rollouts(random)) is None
    exact = rollouts(random, noise=0.0)
    assert said(exact) is None
    growing = rollouts(random)
    for row in growing:
        for number, (start, end) in enumerate(spans(row)):
            gap = row["old_log_probs"][start : end + 1] - row["rollout_log_probs"][start : end + 1]
            row["old_log_probs"][start : end + 1] -= gap * min(0.4 * number, 1.0)
    assert said(growing) is None
    wide = rollouts(random, noise=0.3)  # everywhere alike
    assert said(wide) is None


@pytest.mark.parametrize("seed", SEEDS)
def test_a_turn_of_every_rollout_is_named(seed: int) -> None:
    random = np.random.default_rng([seed, 2])
    rows, turn = rollouts(random, turns=3), int(random.integers(3))
    for row in rows:
        shake(random, row, turn, 0.6)
    found = said(rows)
    assert found is not None and found["severity"] == "warning"
    assert found["evidence"]["turns"] == [turn + 1] and found["evidence"]["rollouts"] == len(rows)
    example = found["evidence"]["example"]
    start, end = spans(rows[example["index"]])[turn]
    assert (example["turn"], example["first_token"], example["last_token"]) == (turn + 1, start, end)
    assert f"tokens {start} to {end}" in found["title"]


@pytest.mark.parametrize("seed", SEEDS)
def test_the_last_turn_of_rollouts_with_several_counts_is_named(seed: int) -> None:
    random = np.random.default_rng([seed, 3])
    rows = rollouts(random)
    for row in rows:
        shake(random, row, len(spans(row)) - 1, 0.8)
    found = said(rows)
    assert found is not None and found["evidence"]["turns"] == [-1]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_few_rollouts_with_a_gap_in_one_turn_are_named(seed: int) -> None:
    random = np.random.default_rng([seed, 4])
    rows = [row for _ in range(3) for row in rollouts(random, turns=3, noise=0.01)]
    wrong = sorted(random.choice(len(rows), len(rows) // 5, replace=False).tolist())
    for place in wrong:
        shake(random, rows[place], 1, 0.7)
    found = said([row | {"group_id": "g"} for row in rows])
    assert found is not None and found["evidence"]["turns"] == [2]
    assert set(found["rollouts"]) <= set(wrong) and len(found["rollouts"]) >= 0.6 * len(wrong)


@pytest.mark.parametrize("seed", SEEDS)
def test_one_long_turn_of_one_rollout_is_named(seed: int) -> None:
    random = np.random.default_rng([seed, 5])
    rows = [row | {"group_id": "g"} for row in rollouts(random, noise=0.01)]
    place, turn = next(
        (i, k) for i, row in enumerate(rows) for k, (a, b) in enumerate(spans(row)) if b - a >= 9
    )
    shake(random, rows[place], turn, 1.0)
    found = said(rows)
    assert found is not None and found["rollouts"] == [place] and found["evidence"]["turns"] == []
    assert found["evidence"]["example"]["turn"] == turn + 1
