"""Small dumps in canonical JSONL."""

import json
from typing import Any


def jsonl(*rows: dict[str, Any]) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def dump(groups: int = 6, size: int = 4, tokens: int = 20, **header: Any) -> bytes:
    rows = [
        {
            "step": 1,
            "group_id": f"g{i % groups}",
            "prompt": f"prompt {i % groups}",
            "response": f"response {i}",
            "reward": float(i % 3),
            "response_ids": list(range(i, i + tokens)),
            "response_mask": [1] * (tokens - 1) + [0],
            "values": [i + t / 8 for t in range(tokens)],
        }
        for i in range(groups * size)
    ]
    return jsonl({"_header": {"schema": "rollout-batch", "version": 1, "run": "r", **header}}, *rows)
