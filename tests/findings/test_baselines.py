"""What compares siblings is not said of estimators that do not, however the file tells which it is."""

from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine

from tests.findings.ingested import found
from tests.truth.making import made

#: Of groups that are compared: their spread, who has no sibling, who votes.
OF_GROUPS = {"zero_variance_groups", "singleton_groups", "fully_masked_rollout_votes", "sign_flips"}
CRITICS = (
    {"adv_estimator": "gae"},
    {"framework": "slime", "advantage_estimator": "ppo"},
    {"framework": "openrlhf", "adv_estimator": "reinforce"},
)


def rows(kind: int, advantages: bool) -> list[dict[str, Any]]:
    """Rows of a critic's run; of equal rewards in some groups (1), of one rollout (7), fully masked (11)."""
    batch = made("gae/verl", kind)
    assert batch is not None
    own = ("advantage", "advantages")
    return [{k: v for k, v in row.items() if advantages or k not in own} for row in batch.rows]


@pytest.mark.parametrize("kind", [1, 7, 11])
@pytest.mark.parametrize("header", [*CRITICS, None])
def test_nothing_is_said_of_groups_beside_another_baseline(
    sqlite_engine: Engine, tmp_path: Path, header: dict[str, Any] | None, kind: int
) -> None:
    said = found(sqlite_engine, tmp_path, rows(kind, advantages=header is None), header)
    assert not OF_GROUPS & {code for code, each in said.items() if each["severity"] != "info"}


@pytest.mark.parametrize(("kind", "code"), [(1, "zero_variance_groups"), (11, "fully_masked_rollout_votes")])
def test_it_is_said_where_groups_are_compared(
    sqlite_engine: Engine, tmp_path: Path, kind: int, code: str
) -> None:
    header = {"framework": "verl", "adv_estimator": "grpo"}
    assert code in found(sqlite_engine, tmp_path, rows(kind, advantages=False), header)
