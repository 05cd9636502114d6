"""Rollouts of which every number follows from step and row, in the forms in which a trainer has them."""

from typing import Any

import numpy as np

WIDTH = 6


def lengths(rows: int) -> np.ndarray[Any, Any]:
    return 1 + np.arange(rows) % WIDTH


def columns(step: int, rows: int = 8) -> dict[str, Any]:
    """Padded arrays with the length of each row, texts beside them."""
    ids = step * 1000 + np.arange(rows * WIDTH).reshape(rows, WIDTH)
    return {
        "prompt": [f"prompt {i // 4}" for i in range(rows)],
        "response": [f"answer {i} of step {step}" for i in range(rows)],
        "group_id": [f"g{i // 4}" for i in range(rows)],
        "reward": (np.arange(rows) % 4) / 4.0,
        "response_ids": ids,
        "response_mask": np.ones((rows, WIDTH), bool),
        "old_log_probs": -(ids % 7) / np.float32(8),
        "response_lengths": lengths(rows),
    }


def ragged(step: int, rows: int = 8) -> list[dict[str, Any]]:
    """The same as rows of lists."""
    given, ends = columns(step, rows), lengths(rows)
    own = [
        {name: value[i][: ends[i]] if np.ndim(value) == 2 else value[i] for name, value in given.items()}
        for i in range(rows)
    ]
    return [
        {
            name: value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value
            for name, value in row.items()
            if name != "response_lengths"
        }
        for row in own
    ]
