"""Two small batches whose numbers can be checked by hand."""

from collections.abc import Iterator
from typing import Any

from app.example import signals

FIVE = (1.0, 0.6, 0.2, 0.0, 0.7)
FILLER = "The wind turns the mill, the mill grinds the corn, and the corn becomes bread for the village. "


def _row(task: str, group: str, index: int, reward: float, length: int) -> dict[str, Any]:
    tokens = list(signals.pieces(FILLER * (1 + length // 20))[:length])
    return {
        "step": 0,
        "group_id": group,
        "sample_index": index,
        "data_source": task,
        "prompt": "Write about a mill.",
        "response": "".join(tokens),
        "response_ids": [signals.token_id(token) for token in tokens],
        "response_tokens": tokens,
        "response_mask": [1] * length,
        "reward": reward,
        "token_level_rewards": [0.0] * (length - 1) + [reward],
        "finish_reason": "stop",
    }


def five_rewards() -> Iterator[dict[str, Any]]:
    """One group with rewards 1.0, 0.6, 0.2, 0.0, 0.7: mean 0.5, std (ddof 1) 0.4."""
    group = [_row("mill", "five", i, reward, 8 + 4 * i) for i, reward in enumerate(FIVE)]
    signals.record_advantages(group)
    yield from group


def two_tasks() -> Iterator[dict[str, Any]]:
    """Two groups of eight of each task; "recall" ends up all negative when the batch is whitened as one.

    "proof": half right, half wrong, and right answers are ten times as long. "recall": seven responses at
    0.25 and one at 0. Inside its groups recall has both signs (+0.354 and −2.475). Against the whole batch
    all of it is below the mean, be it of rewards (0.359) or of group-scaled advantages by token (0.624).
    """
    for group_no in range(2):
        for task in ("proof", "recall"):
            group = []
            for i in range(8):
                right = i < 4 if task == "proof" else i != group_no
                reward = (1.0 if task == "proof" else 0.25) * right
                length = (40 if right else 4) if task == "proof" else 5
                group.append(_row(task, f"{task}-{group_no}", i, reward, length))
            for row in group:
                row["prompt"] = f"A {task} about a mill, part {group_no}."
            signals.record_advantages(group)
            yield from group
