"""Fields that a format does not know are kept beside the row, as JSON has them."""

import json
from pathlib import Path

from tests.ingest.reading import SAMPLES, jsonl, read


def test_lists_under_per_token_names_are_kept_as_lists(tmp_path: Path) -> None:
    """tinker-cookbook's summaries have no tokens; a list under such a name must not fail the whole ingest."""
    path = SAMPLES / "tinker_cookbook/log/iteration_000005/train_rollout_summaries.jsonl"
    row = json.loads(path.read_text().splitlines()[0])
    (rollout,) = read(jsonl(tmp_path, [row | {"advantages": [0.5, None], "response_ids": [1, 2]}])).rollouts
    assert rollout.extra["advantages"] == [0.5, None]
    assert rollout.extra["response_ids"] == [1, 2]
    json.dumps(rollout.extra)
