"""Seeded clean batches of all shapes: nothing about them deserves a finding."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Engine

from storage.models import Batch
from tests.builders import make_batch

Random = np.random.Generator


def clean_batch(engine: Engine, seed: int) -> Batch:
    """A batch whose shape, rewards, tasks, masks and fields follow from the seed."""
    random = np.random.default_rng(seed)
    groups, size = int(random.integers(4, 17)), int(random.choice([2, 4, 8, 16]))
    kind = ("binary", "normal", "uniform", "graded", "negative")[seed % 5]
    rewards = [group_rewards(random, kind, size).tolist() for _ in range(groups)]
    total = groups * size
    tasks = int(random.integers(0, 4))
    names = [f"task-{i}" for i in range(tasks)]
    columns: dict[str, list[Any]] = {
        "response": [f"answer {seed} {i} " * int(random.integers(1, 9)) for i in range(total)]
    }
    arrays: dict[str, Any] = {}
    if seed % 3:
        arrays = token_arrays(random, rewards)
    else:
        columns["response"] = ["yes" if reward else "no" for group in rewards for reward in group]
    if seed % 7 == 1:
        columns["advantage"] = [grpo for group in rewards for grpo in centred(np.array(group)).tolist()]
    return make_batch(
        engine,
        rewards,
        run=f"clean-{seed}",
        arrays=arrays,
        columns=columns,
        data_sources=[names[g % tasks] for g in range(groups)] if tasks else None,
        fields={name: "recorded" for name in (*arrays, "reward", "group_id")},
    )


def group_rewards(random: Random, kind: str, size: int) -> NDArray[np.float64]:
    """Rewards of one group: never all equal."""
    if kind == "binary":
        drawn = (random.random(size) < random.uniform(0.3, 0.7)).astype(float)
    elif kind == "normal":
        drawn = random.normal(0.3, 1.0, size)
    elif kind == "uniform":
        drawn = random.random(size) * 2 - 0.5
    elif kind == "graded":
        drawn = random.integers(0, 5, size) / 4
    else:
        drawn = -np.abs(random.normal(5.0, 2.0, size))
    if np.ptp(drawn) == 0:
        drawn[: size // 2] += 1.0 if drawn[0] == 0 else -drawn[0]
    return drawn


def token_arrays(random: Random, rewards: list[list[float]]) -> dict[str, Any]:
    """Masks (half of them with a gap), outcome rewards on the last trainable token, the rest random."""
    fields: dict[str, Any] = {name: [] for name in ("response_mask", "token_level_rewards", "old_log_probs")}
    fields |= {name: [] for name in ("values", "advantages", "entropies")}
    for group in rewards:
        for reward, advantage in zip(group, centred(np.array(group)).tolist(), strict=True):
            length = int(random.integers(1, 60))
            mask = np.ones(length, dtype=np.uint8)
            if length > 8 and random.random() < 0.5:
                mask[length // 3 : length // 2] = 0
            score = np.zeros(length)
            score[np.flatnonzero(mask)[-1]] = reward
            fields["response_mask"].append(mask)
            fields["token_level_rewards"].append(score)
            fields["old_log_probs"].append(-random.exponential(0.5, length))
            fields["values"].append(random.normal(0.2, 0.1, length))
            fields["advantages"].append(np.where(mask > 0, advantage, 0.0))
            fields["entropies"].append(random.exponential(0.3, length))
    return fields


def centred(rewards: NDArray[np.float64]) -> NDArray[np.float64]:
    """Advantages of one group as GRPO has them: std with ddof 1, eps 1e-6 added."""
    found: NDArray[np.float64] = (rewards - rewards.mean()) / (rewards.std(ddof=1) + 1e-6)
    return found
