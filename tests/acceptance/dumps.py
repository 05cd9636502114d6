"""Dumps whose every number follows from the row, so that a test knows what must be stored."""

import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

GROUP_SIZE = 4


def values_of(row: int, tokens: int) -> NDArray[np.float64]:
    """The values of one rollout: exact in float32."""
    return np.asarray((row * 7 + np.arange(tokens) * 3) % 64 / 64.0)


def reward_of(row: int) -> float:
    return float((row * 5) % 8) / 4.0


def dump(rollouts: int, tokens: int = 64, run: str = "r", step: int = 1) -> bytes:
    """Canonical JSONL. Rows of a group stand apart, so that groups come in several parts."""
    groups = rollouts // GROUP_SIZE
    rows: list[dict[str, Any]] = [{"_header": {"schema": "rollout-batch", "version": 1, "run": run}}]
    for row in range(rollouts):
        rows.append(
            {
                "step": step,
                "group_id": f"g{row % groups}",
                "prompt": f"prompt {row % groups}",
                "response": f"response {row} of {run}",
                "reward": reward_of(row),
                "response_ids": list(range(row, row + tokens)),
                "response_mask": [1] * tokens,
                "values": values_of(row, tokens).tolist(),
            }
        )
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)
