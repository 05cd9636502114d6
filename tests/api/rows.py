"""A small batch with everything that the API has to show: groups with slashes in their ids, odd numbers,
text."""

import json
from collections.abc import Sequence
from typing import Any

#: Group ids as trainers write them.
GROUPS = ("math/train/0", "code one", "math/train/1")
REWARDS = ((1.0, 0.0, 0.5, 0.25), (0.0, 0.0, 0.0, 0.0), (1.0, 0.75, 0.0, 1.0))
LENGTHS = (3, 1, 4, 2)
#: Not a float32: shown shortened it would be another number.
EXACT = 0.10000000149011612


def rows() -> list[dict[str, Any]]:
    made = []
    for group, (name, rewards) in enumerate(zip(GROUPS, REWARDS, strict=True)):
        for slot, (reward, length) in enumerate(zip(rewards, LENGTHS, strict=True)):
            made.append(row(name, group, slot, reward, length))
    return made


def row(name: str, group: int, slot: int, reward: float, length: int) -> dict[str, Any]:
    mask = [0 if length > 2 and i == 1 else 1 for i in range(length)]
    rewards = [0.0] * (length - 1) + [reward]
    return {
        "step": 7,
        "split": "train",
        "group_id": name,
        "data_source": name.split("/")[0],
        "prompt": f"Question {group}: what is 2+{group}?",
        "response": f"Answer {slot} to {group}",
        "response_ids": list(range(10, 10 + length)),
        "response_tokens": [f"t{i}" for i in range(length)],
        "response_mask": mask,
        "token_level_rewards": rewards,
        "values": [EXACT * (slot + 1)] * length,
        "old_log_probs": [-0.5 - 0.25 * i for i in range(length)],
        "reward": reward,
        "reward_components": {"correct": reward, "format": None},
        "finish_reason": "length" if slot == 2 else "stop",
    }


def jsonl(rows: Sequence[dict[str, Any]], header: dict[str, Any] | None = None) -> bytes:
    """JSON lines; NaN and Infinity bare, as Python writes them."""
    lines = ([{"_header": header}] if header else []) + list(rows)
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


ROWS = rows()

#: Rows without tokens: a text and a reward.
NO_TOKENS: list[dict[str, Any]] = [
    {"step": 1, "group_id": "g", "prompt": "p", "response": f"r{i}", "reward": float(i)} for i in range(4)
]
