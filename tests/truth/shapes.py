"""Seeded batches of every shape that a healthy run may dump: rows in the canonical schema, no advantages yet.

`rows_of(kind, seed)` gives the rows of one step with every field that a convention may need; `only` keeps
what one convention's trainer would write.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Random = np.random.Generator
Row = dict[str, Any]
Floats = NDArray[np.float64]
#: Rewards of each group.
Groups = list[list[float]]

RESIDUE = (0.1, 0.3, 0.7, 100.1)
WIDTH = 10


def _normal(random: Random, groups: int, size: int) -> Groups:
    return [random.normal(random.normal(), 1.0, size).tolist() for _ in range(groups)]


def _binary(random: Random, groups: int, size: int) -> Groups:
    return [(random.random(size) < random.uniform(0.1, 0.9)).astype(float).tolist() for _ in range(groups)]


def _residue(random: Random) -> Groups:
    """One group of equal rewards that float32 cannot hold, among others that differ."""
    size = int(random.choice([8, 16]))
    groups = _normal(random, 2, size)
    groups.insert(int(random.integers(0, 3)), [float(random.choice(RESIDUE))] * size)
    return groups


def _constant(random: Random) -> Groups:
    size = int(random.choice([4, 8, 16]))
    return [[float(random.choice([*RESIDUE, 0.0, 1.0]))] * size for _ in range(int(random.integers(1, 4)))]


def _mixed(random: Random) -> Groups:
    """Groups of every size, one alone among them."""
    sizes = [1, *random.integers(2, 7, int(random.integers(2, 5))).tolist()]
    return [random.normal(0.2, 1.0, size).tolist() for size in random.permutation(sizes)]


def _near(random: Random) -> Groups:
    groups = _normal(random, 3, 6)
    groups[1] = (0.5 + 1e-5 * random.normal(size=6)).tolist()
    return groups


def _far(random: Random) -> Groups:
    return [(random.normal(1000.0, 5.0) + random.normal(0.0, 1.0, 6)).tolist() for _ in range(3)]


def _graded(random: Random) -> Groups:
    return [(random.binomial(4, random.uniform(0.2, 0.8), 4) / 4).tolist() for _ in range(5)]


REWARDS: dict[str, Callable[[Random], Groups]] = {
    "plain": lambda random: _normal(random, 4, 4),
    "binary": lambda random: _binary(random, 6, 4),
    "tiny": lambda random: _normal(random, int(random.integers(1, 3)), 2),
    "one": lambda random: [[float(random.normal())]],
    "singletons": lambda random: _normal(random, 5, 1),
    "residue": _residue,
    "constant": _constant,
    "mixed": _mixed,
    "near": _near,
    "far": _far,
    "masked": lambda random: _normal(random, 4, 4),
    "fully_masked": lambda random: _normal(random, 4, 4),
    "padded": lambda random: _binary(random, 4, 6),
    "interleaved": lambda random: _normal(random, 4, 4),
    "shuffled": lambda random: _graded(random),
    "tasks": lambda random: [
        (row + offset).tolist() for offset in (0.0, 0.0, 6.0, 6.0) for row in [random.normal(0.0, 0.5, 4)]
    ],
    "ranks": lambda random: _binary(random, 5, 4),
    "validation": lambda random: _binary(random, 6, 1),
    "truncated": lambda random: _graded(random),
    "zeros": lambda random: [[0.0] * 4 for _ in range(3)],
    "negative": lambda random: [[-abs(x) for x in row] for row in _normal(random, 4, 5)],
    "short": lambda random: _graded(random),
}
KINDS = tuple(REWARDS)


def rows_of(kind: str, seed: int) -> list[Row]:
    """The rows of one step, in the order of the file."""
    random = np.random.default_rng([seed, KINDS.index(kind)])
    groups = REWARDS[kind](random)
    rows = [_row(random, kind, group, reward) for group, members in enumerate(groups) for reward in members]
    _masks(random, kind, rows)
    for row in rows:
        _tokens(random, row, garbage=kind == "padded")
    _placed(random, kind, rows)
    if kind == "interleaved":
        size = len(groups[0])
        rows = [rows[group * size + member] for member in range(size) for group in range(len(groups))]
    elif kind == "shuffled":
        rows = [rows[place] for place in random.permutation(len(rows)).tolist()]
    return rows


def _row(random: Random, kind: str, group: int, reward: float) -> Row:
    length = int(random.integers(1, 3)) if kind in ("short", "tiny") else int(random.integers(3, WIDTH))
    return {
        "step": 1,
        "group_id": f"q{group}",
        "prompt": f"Question {group}: how much is {group} and {group + 3}?",
        "response_ids": random.integers(10, 30_000, length).tolist(),
        "response_mask": [1] * length,
        "reward": reward,
        "finish_reason": "stop",
    }


def _masks(random: Random, kind: str, rows: list[Row]) -> None:
    """Tool output inside, masked ends, rows that are masked from end to end, padding."""
    for place, row in enumerate(rows):
        mask = row["response_mask"]
        length = len(mask)
        if kind == "masked" and length > 3:
            first = int(random.integers(1, length - 1))
            mask[first : first + 2] = [0] * len(mask[first : first + 2])
            if place % 5 == 4:
                mask[-1] = 0
        if kind == "padded":
            row["response_ids"] += [0] * (WIDTH - length)
            mask += [0] * (WIDTH - length)
    if kind == "fully_masked":
        for place in random.choice(len(rows), 2, replace=False).tolist():
            rows[place]["response_mask"] = [0] * len(rows[place]["response_mask"])


def _tokens(random: Random, row: Row, garbage: bool) -> None:
    """Critic, log-probs and rewards per token, as healthy as a run's; what padding holds is anything."""
    mask = np.asarray(row["response_mask"])
    length = mask.size
    old = -random.exponential(0.7, length)
    near = random.normal(0.0, 0.05, length)
    row |= {
        "values": (row["reward"] * 0.3 + random.normal(0.0, 0.3, length)).tolist(),
        "old_log_probs": old.tolist(),
        "ref_log_probs": np.minimum(old + near - near**2, -1e-6).tolist(),
        "sum_pi_squared": random.uniform(0.1, 1.0, length).tolist(),
        "reward_baseline": float(random.normal()),
        "reward_components": {"right": row["reward"] * 0.75, "style": row["reward"] * 0.25},
    }
    if garbage:
        row["values"] = np.where(mask > 0, row["values"], -777.25).tolist()
    rewards, last = np.zeros(length), np.flatnonzero(mask)
    rewards[last[-1] if last.size else -1] = row["reward"]
    row["token_level_rewards"] = rewards.tolist()


def _placed(random: Random, kind: str, rows: list[Row]) -> None:
    """What is written beside the tokens."""
    for place, row in enumerate(rows):
        if kind == "tasks":
            row["data_source"] = "chat" if int(row["group_id"][1:]) > 1 else "math"
        if kind == "ranks":
            row["rank"] = place % 3
        if kind == "validation":
            row["split"] = "val"
        if kind == "truncated":
            row["truncated"] = place % 7 == 3
            row["finish_reason"] = "length" if row["truncated"] else "stop"


def only(rows: Sequence[Row], fields: Sequence[str]) -> list[Row]:
    """The rows without the optional fields that are not among `fields`."""
    optional = {
        "values", "old_log_probs", "ref_log_probs", "sum_pi_squared", "reward_baseline", "reward_components",
        "token_level_rewards", "truncated",
    }  # fmt: skip
    left_out = optional - set(fields)
    return [{name: value for name, value in row.items() if name not in left_out} for row in rows]
