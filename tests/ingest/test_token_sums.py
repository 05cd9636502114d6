"""A reward that the file has per token only is summed up, and is said to be derived."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.ingest.reading import Outcome, jsonl, read

TOKENS = {"response_ids": [1, 2, 3], "response_mask": [1, 0, 1]}


def rows_of(tmp_path: Path, *rows: dict[str, Any], **options: Any) -> Outcome:
    whole = [{"prompt": "p", "response": f"r{i}"} | TOKENS | row for i, row in enumerate(rows)]
    return read(jsonl(tmp_path, [json.dumps(row) for row in whole]), **options)


@pytest.mark.parametrize(
    ("given", "reward", "rule"),
    [
        ({"token_level_rewards": [0.25, 0.5, 1.0]}, 1.75, "derived:sum(token_level_rewards)"),
        ({"token_level_scores": [0.0, 0.0, 1.0]}, 1.0, "derived:sum(token_level_scores)"),
        (
            {"token_level_scores": [0.0, 0.0, 1.0], "token_level_rewards": [-0.1, -0.1, 0.9]},
            1.0,
            "derived:sum(token_level_scores)",
        ),
        ({"token_level_rewards": [0.0, None, 1.0]}, 1.0, "derived:sum(token_level_rewards)"),
        ({"token_level_rewards": [0.0, 0.0, None]}, None, None),
        ({"token_level_rewards": [float("nan"), 0.0, 1.0]}, None, None),
        ({"token_level_rewards": [0.0, 0.0, 1.0], "reward": 3.0}, 3.0, None),
        ({"token_level_rewards": [0.0, 0.0, 1.0], "reward": 0.0}, 0.0, None),
        ({"token_level_rewards": [], "response_ids": [], "response_mask": []}, None, None),
        ({"old_log_probs": [-1.0, -1.0, -1.0]}, None, None),
    ],
)
def test_the_sum_stands_where_no_reward_does(
    tmp_path: Path, given: dict[str, Any], reward: float | None, rule: str | None
) -> None:
    (rollout,) = rows_of(tmp_path, given).rollouts
    assert rollout.reward == reward
    assert rollout.derived.get("reward") == rule


def test_rows_that_repeat_each_other_are_still_told_as_such(tmp_path: Path) -> None:
    row = {"token_level_rewards": [0.0, 0.0, 1.0], "response": "same"}
    outcome = rows_of(tmp_path, row, row, duplicates="drop")
    assert len(outcome.rollouts) == 1 and outcome.said("duplicate_row")
