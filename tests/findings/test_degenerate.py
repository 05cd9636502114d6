"""No check raises on a batch that hardly makes sense; what it says there is sentences and numbers."""

import json
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine

from app import findings
from app.attempts import Attempts
from app.findings.statistics import batch_statistics
from storage.database import read, write
from tests.findings.degenerate import INF, NAN, Row, drawn
from tests.findings.ingested import ingest
from tests.findings.memory import view_of

#: Numbers that overflow are not what is asked about here.
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


def rows(count: int, size: int, **more: Any) -> list[Row]:
    """`count` rows in groups of `size`; a member of `more` may be a function of the row's number."""
    return [
        {"group_id": f"g{i // size}", "prompt": f"p{i // size}", "response": f"a{i}"}
        | {name: value(i) if callable(value) else value for name, value in more.items()}
        for i in range(count)
    ]


def tokens(n: int, **more: Any) -> dict[str, Any]:
    same = ("values", "advantages", "token_level_rewards", "old_log_probs", "rollout_log_probs", "returns")
    return {"response_mask": [1] * n, "response_ids": [1] * n} | {name: [-0.5] * n for name in same} | more


def components(i: int) -> dict[str, float]:
    return {"correct": float(i % 2), "format": 0.5 * (i % 3)}


NAMED: dict[str, list[Row]] = {
    "one rollout": rows(1, 1, reward=1.0, **tokens(3)),
    "every group single, components vary": rows(6, 1, reward=lambda i: i / 2, reward_components=components),
    "every group single, all fields": rows(6, 1, reward=1.0, reward_components=components, **tokens(3)),
    "no tokens": rows(8, 4, reward=lambda i: float(i % 2)),
    "responses of no token": rows(8, 4, reward=lambda i: float(i % 2), **tokens(0)),
    "all masked": rows(8, 4, reward=lambda i: float(i % 2), **tokens(3, response_mask=[0] * 3)),
    "rewards that are NaN": rows(8, 4, reward=NAN, reward_components=components, **tokens(3)),
    "rewards that are infinite": rows(8, 4, reward=lambda i: INF if i % 2 else -INF, **tokens(3)),
    "rewards beyond 1e154": rows(8, 4, reward=lambda i: 1e200 if i % 2 else -1e200, **tokens(3)),
    "rewards at the end of the numbers": rows(8, 4, reward=lambda i: 1e308 if i % 2 else -1e308, **tokens(3)),
    "no rewards": rows(8, 4, reward_components=components, **tokens(3)),
    "components in some rows only": [
        row if i % 3 else row | {"reward_components": components(i)}
        for i, row in enumerate(rows(12, 4, reward=lambda i: float(i % 2)))
    ],
    "components that are NaN": rows(
        8, 4, reward=lambda i: float(i % 2), reward_components=lambda i: {"a": NAN, "b": float(i % 2)}
    ),
    "everything constant": rows(16, 4, reward=0.5, advantage=0.5, **tokens(3)),
    "tokens that are NaN": rows(
        8, 4, reward=lambda i: float(i % 2),
        **tokens(2) | {name: [NAN] * 2 for name in ("values", "advantages", "old_log_probs")},
    ),
    "log-probs beyond the largest number": rows(
        8, 4, reward=lambda i: float(i % 2), **tokens(2, old_log_probs=[-1e308] * 2)
    ),
}  # fmt: skip


def check(batch: list[Row], header: dict[str, Any] | None = None) -> None:
    attempts = Attempts()
    view = view_of(batch, header)
    said = findings.check(view, attempts)
    assert attempts.failed == {}
    json.dumps(said, allow_nan=False)
    json.dumps(batch_statistics(view))
    for each in said:
        assert all(each[name].endswith(".") for name in ("title", "explanation", "remedy")), each


@pytest.mark.parametrize("name", NAMED)
def test_no_check_raises_on_a_degenerate_batch(name: str) -> None:
    check(NAMED[name])
    check(NAMED[name], {"framework": "verl", "adv_estimator": "grpo"})


@pytest.mark.parametrize("start", range(0, 400, 40))
def test_no_check_raises_on_what_a_seed_draws(start: int) -> None:
    for seed in range(start, start + 40):
        header, batch = drawn(seed)
        try:
            check(batch, header)
        except Exception as error:
            raise AssertionError(f"seed {seed}") from error


@pytest.mark.parametrize("seed", range(1000, 1012))
def test_nor_from_the_file_to_the_verdict(sqlite_engine: Engine, tmp_path: Path, seed: int) -> None:
    header, batch = drawn(seed)
    path = tmp_path / "rows.jsonl"
    lines = [{"_header": {"schema": "rollout-batch", **header}}, *batch]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    with write(sqlite_engine) as session:
        (batch_id,) = ingest(session, path)
    attempts = Attempts()
    with read(sqlite_engine) as session:
        findings.assess(session, batch_id, attempts=attempts)
    assert attempts.failed == {}
