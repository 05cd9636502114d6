"""What is wrong with a batch in one way, drawn anew from a seed: other sizes, places, rates, ids and numbers.

Each generator gives canonical rows and what must be said of them.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Random = np.random.Generator
Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Varied:
    """codes    finding -> numbers that its evidence must have
    rollouts    finding -> the rollouts that it must name
    also        findings that may be said with them as warning or critical: they are of the same matter
    """

    rows: list[Row]
    codes: dict[str, dict[str, Any]]
    rollouts: dict[str, set[int]] = field(default_factory=dict)
    also: tuple[str, ...] = ()


def ids(random: Random, count: int) -> list[str]:
    kind = int(random.integers(3))
    made = [f"{random.integers(1 << 40):x}", "task", "p"][kind]
    return [f"{made}-{number}" if kind < 2 else f"{number:04d}" for number in random.permutation(count)]


def mixed(random: Random, groups: int, size: int) -> list[list[float]]:
    """Rewards 0 and 1, each group with both."""
    found = []
    for _ in range(groups):
        right = int(random.integers(1, size))
        found.append(random.permutation([1.0] * right + [0.0] * (size - right)).tolist())
    return found


def standardised(rewards: Any, ddof: int = 1, eps: float = 1e-6) -> Any:
    values = np.asarray(rewards, dtype=float)
    return (values - values.mean()) / (values.std(ddof=ddof) + eps)


def rows_of(random: Random, rewards: list[list[float]], **more: Any) -> list[Row]:
    names, rows = ids(random, len(rewards)), list[Row]()
    for name, group in zip(names, rewards, strict=True):
        for reward in group:
            own = {"step": 1, "group_id": name, "prompt": f"prompt of {name}", "reward": reward}
            rows.append(own | {"response": f"answer {len(rows)} of {name}", **more})
    return rows


def sized(random: Random) -> tuple[int, int]:
    return int(random.integers(3, 9)), int(random.integers(3, 9))


# --- groups ----------------------------------------------------------------------------------------------


def interleaved(random: Random) -> Varied:
    """Rows p, q, … p, q, … and advantages of runs of neighbours."""
    groups, size = int(random.integers(2, 6)), int(random.choice([4, 6, 8]))
    rows: list[Row] = []
    while (
        not rows
        or len({sum(row["reward"] for row in rows[at : at + size]) for at in range(0, len(rows), size)}) == 1
    ):
        drawn = rows_of(random, mixed(random, groups, size))  # anew while the runs cannot be told from groups
        rows = [drawn[g * size + k] for k in range(size) for g in range(groups)]
    for start in range(0, len(rows), size):
        run = rows[start : start + size]
        for row, value in zip(run, standardised([row["reward"] for row in run]), strict=True):
            row["advantage"] = float(value)
    also = ("sign_flips", "recorded_advantages_disagree", "zero_variance_groups", "near_zero_variance_groups")
    return Varied(rows, {"interleaved_groups": {}}, {}, also)


def remainder(random: Random) -> Varied:
    """A fixed stride, and a last group that fills none: its rewards over ε."""
    groups, size = int(random.integers(2, 7)), int(random.choice([4, 6, 8]))
    eps = float(random.choice([1e-5, 1e-6]))
    rest = random.permutation([0.25, 1.0, 1.75, 0.5, 1.5, 0.75])[: int(random.integers(2, min(size, 6)))]
    rewards = [*mixed(random, groups, size), rest.tolist()]
    rows = rows_of(random, rewards)
    made = [value for group in rewards[:-1] for value in standardised(group, eps=eps)]
    made += [value / eps for value in rewards[-1]]
    for row, value in zip(rows, made, strict=True):
        row["advantage"] = float(value)
    last = set(range(groups * size, len(rows)))
    expected = {"kind": "divided by epsilon", "rollouts": len(last)}
    also = ("unequal_group_sizes", "outlier_advantages", "recorded_advantages_disagree", "sign_flips")
    return Varied(rows, {"epsilon_dominated": expected}, {"epsilon_dominated": last}, also)


def over_ranks(random: Random) -> Varied:
    """Groups cut over ranks, each part normalised alone."""
    groups, ranks = int(random.integers(2, 6)), int(random.choice([2, 3]))
    part = int(random.integers(2, 5))
    rewards = mixed(random, groups, ranks * part)
    rows = rows_of(random, rewards)
    for i, row in enumerate(rows):
        row["rank"] = i % (ranks * part) // part
    for start in range(0, len(rows), part):
        own = rows[start : start + part]
        for row, value in zip(own, standardised([row["reward"] for row in own]), strict=True):
            row["advantage"] = float(value)
    also = ("recorded_advantages_disagree", "sign_flips", "zero_variance_groups")
    return Varied(rows, {"split_group": {}}, {}, also)


def by_text(random: Random) -> Varied:
    """Siblings whose prompts differ in a path, and two groups with one text, grouped by the text."""
    size = int(random.integers(3, 6))
    rewards = [*mixed(random, int(random.integers(1, 4)), size), [1.0] * size, [0.0] * size]
    rows = rows_of(random, rewards)
    for i, row in enumerate(rows):
        row["prompt"] = (
            "What is 2+2?" if i >= len(rows) - 2 * size else f"cd /w/{i:03x}; fix {row['group_id']}"
        )
        row["advantage"] = 0.0
    both = standardised([1.0] * size + [0.0] * size)
    for row, value in zip(rows[-2 * size :], both, strict=True):
        row["advantage"] = float(value)
    also = ("zero_variance_groups", "recorded_advantages_disagree", "singleton_groups", "sign_flips")
    return Varied(rows, {"group_key_suspect": {}}, {}, also)


# --- rewards ---------------------------------------------------------------------------------------------


def tiny_spread(random: Random) -> Varied:
    groups, size = sized(random)
    rewards = mixed(random, groups, size)
    small = int(random.integers(groups))
    base = float(random.choice([0.0, 1.0, 5.0]))
    rewards[small] = (
        base + random.permutation(np.linspace(0, 1, size)) * 10.0 ** random.uniform(-5, -4)
    ).tolist()
    rows = rows_of(random, rewards)
    for row, value in zip(rows, [v for group in rewards for v in standardised(group)], strict=True):
        row["advantage"] = float(value)
    named = set(range(small * size, (small + 1) * size))
    code = "near_zero_variance_groups"
    return Varied(rows, {code: {"near_zero_groups": 1}}, {code: named})


def missing_rewards(random: Random) -> Varied:
    groups, size = sized(random)
    rows = rows_of(random, mixed(random, groups, size))
    missing = {0, *(i for i in range(len(rows)) if random.random() < 0.25)}
    for i in missing:
        rows[i]["reward"] = None
    also = ("singleton_groups", "zero_variance_groups")
    code = "nonfinite_values"
    return Varied(rows, {code: {"unscored_rollouts": len(missing)}}, {code: missing}, also)


def shaping_only(random: Random) -> Varied:
    """Nobody in some groups is right, and a bonus is all that differs there."""
    groups, size = sized(random)
    right = mixed(random, groups, size)
    failed = sorted({0, *(g for g in range(groups) if random.random() < 0.3)} - {groups - 1})
    rows = rows_of(random, right)
    for i, row in enumerate(rows):
        accuracy = 0.0 if i // size in failed else row["reward"]
        bonus = round(float(random.uniform(0, 0.03)), 4)
        row["reward"] = accuracy + bonus
        row["reward_components"] = {"accuracy": accuracy, "length_bonus": bonus}
    named = {i for i in range(len(rows)) if i // size in failed}
    also = ("near_zero_variance_groups", "reward_component_dominates")
    code = "shaping_noise"
    return Varied(rows, {code: {"component": "accuracy", "noise_groups": len(failed)}}, {code: named}, also)


def no_contrast(random: Random) -> Varied:
    groups, size = sized(random)
    levels = random.permutation(np.arange(groups) * float(random.uniform(0.5, 4)) - 3)
    rows = rows_of(random, [[float(level)] * size for level in levels], advantage=0.0)
    expected = {
        "std_over_rollouts_ddof1": float(np.repeat(levels, size).std(ddof=1)),
        "between_groups_share": 1.0,
    }
    every = set(range(len(rows)))
    code = "loss_zero_despite_reward_spread"
    return Varied(rows, {code: expected}, {code: every}, ("zero_variance_groups",))


def bfloat16(random: Random) -> Varied:
    """Rewards of a 16-bit head, all steps rounded to bfloat16."""
    size = int(random.integers(5, 9))
    base, step = float(random.choice([0.25, 0.5, 1.0])), 2.0**-9
    groups = int(random.integers(1, 4))
    rewards = [[base] * (size - 1) + [base * (1 + 4 * step)] for _ in range(groups)]
    rows = rows_of(random, rewards)
    for g, group in enumerate(rewards):
        low = _rounded(np.array(group))
        mean = _rounded(np.float32(low.sum(dtype=np.float32) / np.float32(size)))
        centred = _rounded(low - mean)
        std = _rounded(np.sqrt((centred**2).sum(dtype=np.float32) / np.float32(size - 1)))
        for row, value in zip(rows[g * size :], _rounded(centred / (std + np.float32(1e-9))), strict=False):
            row["advantage"] = float(value)
    also = ("near_zero_variance_groups", "recorded_advantages_disagree", "sign_flips", "outlier_advantages")
    return Varied(rows, {"precision_loss": {"dtype": "bfloat16"}}, {}, also)


def _rounded(values: Any) -> Any:
    """To the nearest bfloat16, as float32."""
    bits = np.asarray(values, dtype=np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000).astype(np.uint32).view(np.float32)


def lone_ranks(random: Random) -> Varied:
    """A rank for every rollout: whitened there, nothing is left."""
    count = int(random.integers(2, 6))
    rows = rows_of(random, mixed(random, 1, count))
    for i, row in enumerate(rows):
        length = int(random.integers(2, 6))
        row |= {"rank": i, "response_mask": [1] * length, "advantages": [row["reward"] - 0.5] * length}
    expected = {"scope": "rank", "scopes": count, "too_small": count}
    return Varied(
        rows, {"too_few_tokens_to_whiten": expected}, {}, ("split_group", "recorded_advantages_disagree")
    )


GROUP_KINDS: dict[str, Callable[[Random], Varied]] = {
    make.__name__: make
    for make in (
        interleaved, remainder, over_ranks, by_text, tiny_spread, missing_rewards,
        shaping_only, no_contrast, bfloat16, lone_ranks,
    )
}  # fmt: skip
