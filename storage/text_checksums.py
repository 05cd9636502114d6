"""CRC-32 of the texts of a row, so that `vantage check` sees a text that is not what was written."""

import zlib
from collections.abc import Mapping
from typing import Any

#: The texts of a rollout and of a prompt group, in the order in which they are summed up.
OF_ROLLOUT = ("response", "prompt", "ground_truth", "data_source", "finish_reason", "sample_id", "rollout_id")
OF_PROMPT = ("group_id", "data_source", "prompt")


def of_rollout(row: Mapping[str, Any]) -> int:
    return _of([row.get(name) for name in OF_ROLLOUT])


def of_prompt(row: Mapping[str, Any]) -> int:
    return _of([row.get(name) for name in OF_PROMPT])


def _of(texts: list[str | None]) -> int:
    """Each text with its length before it; one that is not there is another than an empty one."""
    found = 0
    for text in texts:
        data = b"" if text is None else text.encode("utf-8", "surrogatepass")
        found = zlib.crc32(f"{-1 if text is None else len(data)}:".encode() + data, found)
    return found
