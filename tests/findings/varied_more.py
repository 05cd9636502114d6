"""Rows that only fill up a batch, and advantages of many conventions, drawn from a seed: see `varied`."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.findings.varied import Random, Row, mixed, rows_of

PADS = ("<pad>", "<|endoftext|>", "[PAD]")


@dataclass(frozen=True, slots=True)
class Filled:
    """Rows as a file has them. `real`: those without the fillers, which all numbers must be of."""

    rows: list[Row]
    fillers: list[int]

    @property
    def real(self) -> list[Row]:
        return [row for place, row in enumerate(self.rows) if place not in self.fillers]


def filled(random: Random) -> Filled:
    """Real rows of several groups, and rows of nothing that make their number divisible."""
    groups, size = int(random.integers(1, 6)), int(random.integers(2, 7))
    rewards = mixed(random, groups, size)
    if random.random() < 0.5:
        rewards.append([float(random.choice([0.0, 1.0]))] * size)
    real = rows_of(random, rewards)
    for place, row in enumerate(real):
        row |= tokens_of(random, place, int(random.integers(2, 9)))
    if len(real) > 3 and random.random() < 0.3:  # masked as a whole, but somebody asked for it
        real[-1] |= {"response_mask": [0] * len(real[-1]["response_mask"])}
        real[-1]["reward"] = 0.0
    divisor = int(random.choice([4, 8, 16]))
    count = divisor - len(real) % divisor
    made = [filler(random, real, place) for place in range(count)]
    apart = len({row["group_id"] for row in made}) == 1 and random.random() < 0.5
    at = 0 if apart else len(real)
    rows = [*real[:at], *made, *real[at:]]
    return Filled(rows, list(range(at, at + count)))


def tokens_of(random: Random, place: int, length: int) -> dict[str, Any]:
    texts = [f"w{place}.{k} " for k in range(length)]
    numbers = (-random.exponential(1, length)).tolist()
    return {
        "response": "".join(texts), "response_tokens": texts, "response_mask": [1] * length,
        "old_log_probs": numbers,
    }  # fmt: skip


def filler(random: Random, real: list[Row], place: int) -> Row:
    """Without a prompt, every token masked; in a group of their own, or each alone."""
    width = int(random.integers(1, 6))
    pad = str(random.choice(PADS))
    return {
        "step": 1,
        "group_id": "filler" if len(real) % 2 else f"filler-{place}",
        "prompt": "" if len(real) % 3 else " ",
        "response": "",
        "response_tokens": [pad] * width,
        "response_mask": [0] * width,
        "old_log_probs": [0.0] * width,
        "reward": 0.0,
    }


def numbers(rows: list[Row]) -> dict[str, Any]:
    """What the statistics of the rows must be, one group after the other."""
    rewards = np.array([row["reward"] for row in rows])
    names = list(dict.fromkeys(row["group_id"] for row in rows))
    of_groups = [[row["reward"] for row in rows if row["group_id"] == name] for name in names]
    live = [any(sum(row["response_mask"]) for row in rows if row["group_id"] == name) for name in names]
    compared = [group for group, lives in zip(of_groups, live, strict=True) if lives and len(group) > 1]
    return {
        "rollouts": len(rows),
        "n": len(rows),
        "mean": float(rewards.mean()),
        "std": float(rewards.std(ddof=1)),
        "groups": len(names),
        "zero_signal_share": sum(max(group) == min(group) for group in compared) / len(compared),
        "mean_length": float(np.mean([len(row["response_mask"]) for row in rows])),
    }
