"""Findings of a run: each names its change, with before and now; none on a steady run."""

import time
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sqlalchemy import Engine

from app.findings.of_run import RUN_FINDINGS, findings_of_steps, run_findings
from storage.database import read
from storage.runs import StepRow
from tests.builders import make_batch

STEADY: dict[str, Any] = {"passed": 0.5, "dead": 0.1, "length": 400.0, "cut": 0.02, "spread": 0.9}


def row(random: np.random.Generator, step: int | None, **changed: Any) -> StepRow:
    """A batch of 16 groups of 8 with binary rewards; chance as in a real one."""
    said = STEADY | changed
    dead, mean = int(random.binomial(16, said["dead"])), random.binomial(128, said["passed"]) / 128
    statistics = {
        "reward": {"n": 128, "mean": mean, "std": float(np.sqrt(mean * (1 - mean)))},
        "zero_signal_share": dead / 16,
        "signal": {"groups": {"mixed": 16 - dead, "fail": dead}},
        "truncated": {"n": int(random.binomial(128, said["cut"])), "known": 128},
        "length": {"all": {"mean": said["length"] * float(random.lognormal(0, 0.05))}},
        "advantage": {"std": said["spread"] * float(random.lognormal(0, 0.03))},
        "data_sources": said.get("tasks", []),
    }
    codes = said.get("codes", {})
    return StepRow(
        f"b{step}", step, said.get("split"), said.get("newest", True), "canonical-jsonl", 128, 16, 128 * 400,
        0.0, statistics, codes,
    )  # fmt: skip


def turned(at: int = 140, steps: int = 200, seed: int = 0, **changed: Any) -> list[dict[str, Any]]:
    """The findings of a run that is steady until `at` and changed from there on."""
    random = np.random.default_rng(seed)
    return findings_of_steps([row(random, s, **(changed if s >= at else {})) for s in range(steps)])


@pytest.mark.parametrize("seed", range(60))
def test_nothing_on_a_steady_run(seed: int) -> None:
    random = np.random.default_rng(seed)
    steps = int(random.choice([1, 2, 3, 5, 9, 30, 200]))
    gain = float(random.choice([0.0, 0.3]))
    stride = int(random.choice([1, 10]))
    rows = [
        row(random, s * stride, passed=0.4 + gain * s / steps, dead=0.1 + 0.08 * s / steps)
        for s in range(steps)
    ]
    assert [said["title"] for said in findings_of_steps(rows)] == []


def test_groups_lost_their_signal() -> None:
    (said,) = turned(dead=0.5)
    assert said["code"] == "signal_lost" and said["severity"] in ("warning", "critical")
    assert 139 <= said["step"] <= 141 and said["batch"] == f"b{said['step']}"
    assert said["evidence"]["before"] < 0.2 and said["evidence"]["now"] > 0.4
    assert "% of groups carry no signal (steps 190–199)" in said["title"]


def test_the_reward_collapsed() -> None:
    (said,) = turned(passed=0.1)
    assert said["code"] == "reward_collapse" and said["step"] == 140
    assert said["evidence"]["fall_in_stds"] == pytest.approx(0.8, abs=0.15)


def test_a_gain_is_no_finding() -> None:
    assert turned(passed=0.9) == []


def test_one_task_collapsed_behind_a_steady_mean() -> None:
    random = np.random.default_rng(1)

    def tasks(first: float, second: float) -> list[dict[str, Any]]:
        means = (first, second)
        return [
            {"data_source": name, "n": 64, "mean": random.binomial(64, p) / 64, "std": 0.5}
            for name, p in zip(("code", "maths"), means, strict=True)
        ]

    rows = [row(random, s, tasks=tasks(0.5, 0.5) if s < 30 else tasks(0.1, 0.9)) for s in range(60)]
    (said,) = findings_of_steps(rows)
    assert said["code"] == "reward_collapse" and said["evidence"]["data_source"] == "code"


@pytest.mark.parametrize(
    ("change", "severity"),
    [
        ({"length": 1200.0}, "warning"),
        ({"length": 1200.0, "passed": 0.8}, "info"),
        ({"length": 90.0}, "warning"),
    ],
)
def test_lengths_exploded_or_collapsed(change: dict[str, Any], severity: str) -> None:
    (said,) = turned(**change)
    assert (said["code"], said["severity"], said["step"]) == ("length_drift", severity, 140)
    assert said["evidence"]["ratio"] == pytest.approx(change["length"] / 400, rel=0.1)


def test_advantages_changed_their_size() -> None:
    (said,) = turned(spread=9.0)
    assert said["code"] == "advantage_drift" and said["evidence"]["ratio"] == pytest.approx(10, rel=0.1)


def test_more_responses_are_cut_off() -> None:
    (said,) = turned(cut=0.6)
    assert (said["code"], said["severity"], said["step"]) == ("truncation_jump", "critical", 140)


def test_missing_steps_and_steps_that_came_twice() -> None:
    random = np.random.default_rng(2)
    rows = [row(random, s) for s in range(0, 300, 10) if s not in (70, 200, 210)]
    said = {each["code"]: each for each in findings_of_steps([row(random, 80, newest=False), *rows])}
    assert said["missing_steps"]["evidence"]["missing"] == [70, 200, 210]
    assert said["missing_steps"]["evidence"]["usual_distance"] == 10
    assert said["repeated_steps"]["evidence"]["repeated_steps"] == [80]
    assert {each["severity"] for each in said.values()} == {"warning", "info"}


def test_a_finding_that_begins_and_stays() -> None:
    (said,) = turned(codes={"sign_flips": "warning", "missing_eos": "critical", "length_bias": "info"})
    assert (said["code"], said["severity"], said["step"]) == ("finding_begins", "critical", 140)
    assert said["evidence"]["codes"] == {"missing_eos": "critical", "sign_flips": "warning"}


def test_a_finding_that_was_always_there_does_not_begin() -> None:
    assert turned(at=0, codes={"sign_flips": "warning"}) == []


def test_splits_are_looked_at_one_by_one() -> None:
    random = np.random.default_rng(3)
    rows = [row(random, s, split="train", passed=0.6 if s < 20 else 0.1) for s in range(40)]
    rows += [row(random, s, split="val") for s in range(40)]
    (said,) = findings_of_steps(rows)
    assert said["split"] == "train" and said["title"].startswith("train: The mean reward fell")


def test_a_thousand_steps_take_no_time() -> None:
    random = np.random.default_rng(4)
    rows = [row(random, s, passed=0.6 if s < 700 else 0.1) for s in range(1000)]
    started = time.perf_counter()
    assert {said["code"] for said in findings_of_steps(rows)} == {"reward_collapse"}
    assert time.perf_counter() - started < 1.0  # 15 ms on an idle machine


def test_batches_without_a_step_have_no_order() -> None:
    random = np.random.default_rng(5)
    assert findings_of_steps([row(random, None, passed=0.1 * s) for s in range(9)]) == []


def test_from_stored_batches(engine: Engine) -> None:
    random = np.random.default_rng(6)

    def rewards(step: int) -> NDArray[np.float64]:
        return (random.random((4, 8)) < (0.7 if step < 5 else 0.02)).astype(float)

    for step in range(10):
        statistics = row(random, step, passed=0.7 if step < 5 else 0.02).statistics
        batch = make_batch(engine, rewards(step).tolist(), step=step, statistics=statistics, findings=[])
    with read(engine) as session:
        said = run_findings(session, batch.run_id)
    assert [each["code"] for each in said] == ["reward_collapse"] and said[0]["step"] == 5


def test_every_check_has_its_code_and_title() -> None:
    assert all(code == finding.code and finding.title for code, finding in RUN_FINDINGS.items())
