"""Recorded advantages of common conventions over the same kind of rewards, drawn from a seed: which std,
which ε, or none at all. The numbers are worked out here, in plain numpy.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

Random = np.random.Generator
#: What frameworks add to the std, by its ddof: these are conventions as they are.
EPSILONS = {0: (1e-6, 1e-8), 1: (1e-9, 1e-6, 1e-5, 1e-4)}
#: And what else is in use.
OTHERS = {0: (0.0, 1e-9, 1e-5, 1e-4), 1: (1e-3,)}


@dataclass(frozen=True, slots=True)
class Standardised:
    """rewards, groups, lengths   per rollout
    advantages                    per rollout, as recorded
    ddof, eps                     of the std that made them; None: not divided
    """

    rewards: list[float]
    groups: list[str]
    lengths: list[int]
    advantages: list[float]
    ddof: int | None
    eps: float | None


def drawn(random: Random, kind: str, known: bool = True) -> Standardised:
    """Groups of one step, whose spreads differ, so that nothing but the groups' own std gives the numbers."""
    count = int(random.integers(2, 7))
    ddof = int(kind[-1]) if kind.startswith("grpo") else None
    eps = None if ddof is None else float(random.choice((EPSILONS if known else OTHERS)[ddof]))
    rewards, groups, made = list[float](), list[str](), list[float]()
    names = [f"{random.integers(1 << 32):08x}" for _ in range(count)]
    for place, name in enumerate(names):
        own = of_group(random, place)
        rewards += own.tolist()
        groups += [name] * own.size
        made += advantages(own, kind, ddof, eps).tolist()
    lengths = random.integers(1, 6, len(rewards)).tolist()
    return Standardised(rewards, groups, lengths, rounded(random, made), ddof, eps)


def of_group(random: Random, place: int) -> Any:
    size = int(random.integers(3, 9))
    if random.random() < 0.5:
        right = 1 + place % (size - 1)
        return random.permutation([1.0] * right + [0.0] * (size - right))
    return np.round(random.normal(0.5, 1 + place, size), 3)


def advantages(rewards: Any, kind: str, ddof: int | None, eps: float | None) -> Any:
    centred = rewards - rewards.mean()
    if kind == "rloo":
        return rewards - (rewards.sum() - rewards) / (rewards.size - 1)
    if ddof is None or eps is None:
        return centred
    return centred / (rewards.std(ddof=ddof) + eps)


def rounded(random: Random, values: list[float]) -> list[float]:
    """As a file has them: float64, float32, or ten decimals."""
    exact = np.array(values)
    ways: list[list[float]] = [values, exact.astype(np.float32).tolist(), np.round(exact, 10).tolist()]
    return ways[int(random.integers(3))]


def rows_of(made: Standardised) -> list[dict[str, Any]]:
    """As canonical rows."""
    every = zip(made.rewards, made.groups, made.lengths, made.advantages, strict=True)
    return [
        {
            "step": 1, "group_id": group, "prompt": f"prompt of {group}", "response": f"answer {place}",
            "reward": reward, "response_mask": [1] * length, "advantages": [advantage] * length,
        }
        for place, (reward, group, length, advantage) in enumerate(every)
    ]  # fmt: skip


KINDS = ("grpo_ddof0", "grpo_ddof1", "dr_grpo", "rloo")
