"""Which std made the recorded advantages is said, and what a known convention made is not called wrong."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sqlalchemy import Engine

from app import findings, reconciling
from estimators import Request, estimate
from storage.database import write
from tests.estimators.build import batch_of
from tests.estimators.test_reconcile import best, traced
from tests.estimators.varied_std import KINDS, Standardised, drawn, rows_of
from tests.findings.ingested import ingest

ESTIMATORS = {"grpo_ddof0": "grpo", "grpo_ddof1": "grpo", "dr_grpo": "dr_grpo", "rloo": "rloo"}


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("kind", KINDS)
def test_the_std_is_named(kind: str, seed: int) -> None:
    made = drawn(np.random.default_rng([seed, *kind.encode()]), kind)
    batch = batch_of([[1] * length for length in made.lengths], made.groups, made.rewards)
    recorded = torch.tensor(made.advantages, dtype=torch.float64)
    traced_to = traced(batch, recorded.repeat_interleave(batch.lengths))
    agreeing = [each for each in traced_to.candidates if each.matched]
    assert traced_to.verdict in ("match", "ambiguous") and best(traced_to).mistake is None, (
        traced_to.explanation
    )
    for each in agreeing:
        if each.mistake is None:
            again = estimate(batch, Request.from_dict(each.request))
            values = (
                again.advantages if again.per_token else again.advantages.repeat_interleave(batch.lengths)
            )
            wanted = recorded.repeat_interleave(batch.lengths)
            assert torch.allclose(values, wanted, rtol=2e-6, atol=2e-6), each.convention
    kinds = {(settings[0], settings[1]) for each in agreeing if (settings := of(each.request, made))}
    assert kinds == {(ESTIMATORS[kind], made.ddof)}, kinds
    words = {0: "opulation", 1: "ample std"}
    assert made.ddof is None or any(words[made.ddof] in each.explanation for each in agreeing)


def of(request: dict[str, Any], made: Standardised) -> tuple[str, int | None] | None:
    """Which kind of baseline, and which std, a request asks for; None for others with the same numbers."""
    estimator, params = request["estimator"], request["params"]
    return (estimator, params.get("ddof")) if estimator in ESTIMATORS.values() else None


@pytest.mark.parametrize(
    ("kind", "seed", "header", "severity"),
    [
        ("grpo_ddof0", 0, {}, None),  # nobody said which: a legal option of a convention gives them
        ("grpo_ddof1", 1, {"adv_estimator": "grpo"}, "info"),
        ("grpo_ddof0", 2, {"framework": "verl", "adv_estimator": "grpo"}, "warning"),
    ],
)
def test_another_epsilon_is_no_mistake_unless_one_is_named(
    sqlite_engine: Engine, tmp_path: Path, kind: str, seed: int, header: dict[str, str], severity: str | None
) -> None:
    made = drawn(np.random.default_rng([seed, *kind.encode()]), kind, known=False)
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows_of(made)))
    with write(sqlite_engine) as session:
        (batch_id,) = ingest(session, path)
        traced_to = reconciling.answer(session, batch_id, header, "jsonl")
        said = findings.run(session, batch_id, None, header, traced_to)
    found = [each for each in said if each["code"] == "recorded_advantages_disagree"]
    if severity is None:
        assert found == [] and traced_to["candidates"][0]["matched"]
        return
    (disagree,) = found
    assert disagree["severity"] == severity
    assert ("√(n/(n−1))" in disagree["explanation"]) == (severity == "info")
