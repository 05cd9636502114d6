"""Whatever a writer puts into a canonical row comes back as it was, bit for bit."""

import json
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.ingest import Rollout
from app.ingest.record import PROMPT_FIELD
from storage.arrays import is_missing
from tests.ingest.reading import Outcome, read_rows

FLOATS = st.floats(allow_subnormal=False)
LENGTHS = st.shared(st.integers(0, 6), key="length")


def listed(values: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Any]]:
    return LENGTHS.flatmap(lambda length: st.lists(values, min_size=length, max_size=length))


ROWS = st.fixed_dictionaries(
    {"response": st.text()},
    optional={
        "prompt": st.text(),
        "group_id": st.text(min_size=1),
        "reward": FLOATS,
        "step": st.integers(-(2**63), 2**63 - 1),
        "sample_index": st.integers(0, 100),
        "ground_truth": st.text(),
        "truncated": st.booleans(),
        "response_ids": listed(st.integers(0, 2**63 - 1)),
        "response_mask": listed(st.integers(0, 1)),
        "response_tokens": listed(st.text()),
        "prompt_ids": st.lists(st.integers(0, 2**31), max_size=5),
        "advantages": listed(FLOATS | st.none()),
        "rollout_log_probs": listed(st.floats(max_value=0, allow_infinity=False)),
        "reward_components": st.dictionaries(st.text(), FLOATS | st.none(), max_size=3),
        "note": st.recursive(st.none() | st.text() | st.booleans() | st.integers(), st.lists, max_leaves=5),
    },
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)
@given(st.lists(ROWS, min_size=1, max_size=4), st.booleans())
def test_what_is_written_is_what_is_read(tmp_path: Path, rows: list[dict[str, Any]], ascii: bool) -> None:
    lines = [json.dumps(row, ensure_ascii=ascii).encode(errors="surrogatepass") for row in rows]
    outcome: Outcome = read_rows(tmp_path, *lines, duplicates="keep")
    assert len(outcome.rollouts) == len(rows)
    for rollout, row in zip(outcome.rollouts, rows, strict=True):
        found = recorded(rollout)
        expected = {name: value for name, value in row.items() if name not in ("group_id", "note")}
        assert repr(found) == repr({name: expected[name] for name in found})
        assert found.keys() == expected.keys()
        assert rollout.extra.get("note") == row.get("note")
        assert "group_id" not in row or rollout.group_id == row["group_id"]


def recorded(rollout: Rollout) -> dict[str, Any]:
    """The rollout as the row it came from."""
    arrays = dict(rollout.tokens)
    if rollout.prompt_ids is not None:
        arrays[PROMPT_FIELD] = rollout.prompt_ids
    found: dict[str, Any] = {}
    for name, array in arrays.items():
        missing = is_missing(array) if array.dtype.kind == "f" else np.zeros(array.shape, bool)
        found[name] = [None if gone else value for value, gone in zip(array.tolist(), missing, strict=True)]
    names = ("response", "prompt", "reward", "step", "sample_index", "ground_truth", "truncated")
    for name in (*names, "response_tokens", "reward_components"):
        if (value := getattr(rollout, name)) is not None:
            found[name] = value
    return found
