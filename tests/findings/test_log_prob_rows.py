"""Short rollouts with huge ratios, and log-probs of exactly 0 at the end of responses, are named."""

from typing import Any

import numpy as np
import pytest

from tests.findings.memory import codes_of

Row = dict[str, Any]
Random = np.random.Generator
SEEDS = range(12)


def rollouts(random: Random, noise: float = 0.02) -> list[Row]:
    rows: list[Row] = []
    for group in range(int(random.integers(3, 7))):
        for _ in range(int(random.integers(6, 10))):
            size = int(random.integers(20, 120)) if random.random() < 0.8 else int(random.integers(1, 6))
            sampler = -random.exponential(0.6, size) - 0.05
            old = np.minimum(sampler + random.standard_t(5, size) * noise, -1e-6)
            row = {
                "group_id": f"g{group}",
                "reward": float(random.integers(2)),
                "response_mask": np.ones(size),
            }
            rows.append(row | {"rollout_log_probs": sampler, "old_log_probs": old})
    return rows


def shorten(row: Row, size: int) -> None:
    for name in ("response_mask", "rollout_log_probs", "old_log_probs"):
        row[name] = row[name][:size].copy()


@pytest.mark.parametrize("seed", SEEDS)
def test_short_rollouts_with_huge_ratios_are_named(seed: int) -> None:
    random = np.random.default_rng([seed, 1])
    rows = [row | {"group_id": "g"} for row in rollouts(random)]
    assert "log_ratio_outliers" not in codes_of(rows)
    wrong = sorted(random.choice(len(rows), 3, replace=False).tolist())
    for place in wrong:
        shorten(rows[place], int(random.integers(1, 6)))
        rows[place]["rollout_log_probs"][0] -= float(random.uniform(3.0, 8.0))
    said = codes_of(rows)["log_ratio_outliers"]
    assert said["severity"] == "warning" and said["rollouts"] == wrong
    assert said["evidence"]["tokens"][1] <= 5 and said["evidence"]["example"]["ratio"] > 15
    for place, row in enumerate(rows):
        row["policy_version"] = 7 if place in wrong else 8
    said = codes_of(rows)["log_ratio_outliers"]
    assert said["severity"] == "info" and said["evidence"]["policy_versions"] == [7]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("noise", [0.0, 0.05, 0.4])
def test_ratios_that_are_all_of_a_kind_are_left_alone(seed: int, noise: float) -> None:
    assert "log_ratio_outliers" not in codes_of(rollouts(np.random.default_rng([seed, 2]), noise))


@pytest.mark.parametrize("seed", SEEDS)
def test_zeros_at_the_end_of_responses_are_placeholders(seed: int) -> None:
    random = np.random.default_rng([seed, 3])
    rows = [row for row in rollouts(random) if row["response_mask"].size > 8]
    assert "placeholder_log_probs" not in codes_of(rows)
    tail = int(random.integers(1, 4))
    for row in rows:
        row["ref_log_probs"] = row["old_log_probs"] - 0.01
        row["old_log_probs"][-tail:] = row["ref_log_probs"][-tail:] = 0.0
    said = codes_of(rows)["placeholder_log_probs"]
    assert set(said["evidence"]) == {"old_log_probs", "ref_log_probs"}
    old = said["evidence"]["old_log_probs"]
    assert old["tokens"] == tail * len(rows) and old["beside"] == "rollout_log_probs"
    assert old["zeros_elsewhere"] == 0 and said["rollouts_total"] == len(rows)


@pytest.mark.parametrize("seed", SEEDS)
def test_certain_tokens_are_no_placeholders(seed: int) -> None:
    random = np.random.default_rng([seed, 4])
    rows = rollouts(random)
    for row in rows:  # both are certain of the end token
        row["old_log_probs"][-1], row["rollout_log_probs"][-1] = 0.0, -1e-4
    assert "placeholder_log_probs" not in codes_of(rows)
    rows = rollouts(random)
    for row in rows:  # a sampler that keeps one candidate here and there
        row["rollout_log_probs"][random.random(row["response_mask"].size) < 0.3] = 0.0
    assert "placeholder_log_probs" not in codes_of(rows)
