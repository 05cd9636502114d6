"""The built-in examples say what the documentation says of them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
import zstandard
from numpy.typing import NDArray

from app.example import example_files

Rows = list[dict[str, Any]]
PER_TOKEN = ("response_ids", "response_mask", "token_level_rewards", "advantages")
CRITIC = ("values", "old_log_probs", "ref_log_probs", "rollout_log_probs", "entropies")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return example_files(tmp_path_factory.mktemp("example"))


@pytest.fixture(scope="module")
def rows(files: list[Path]) -> dict[str, Rows]:
    return {path.name.split(".")[0]: _rows(path) for path in files}


def _rows(path: Path) -> Rows:
    data = path.read_bytes()
    if path.suffix == ".zst":
        data = zstandard.ZstdDecompressor().decompress(data)
    return [orjson.loads(line) for line in data.splitlines()][1:]


def _by_group(rows: Rows) -> dict[str, Rows]:
    groups: dict[str, Rows] = {}
    for row in rows:
        groups.setdefault(row["group_id"], []).append(row)
    return groups


def _share(rows: Rows, holds: Callable[[Rows], bool]) -> float:
    return float(np.mean([holds(group) for group in _by_group(rows).values()]))


def _rewards(rows: Rows, task: str | None = None) -> NDArray[np.float64]:
    return np.array([row["reward"] for row in rows if task in (None, row["data_source"])])


def test_the_same_bytes_each_time(files: list[Path], tmp_path: Path) -> None:
    again = example_files(tmp_path)
    assert [path.name for path in again] == [path.name for path in files]
    assert all(a.read_bytes() == b.read_bytes() for a, b in zip(again, files, strict=True))


def test_the_run_has_24_steps_of_16_groups_of_8(rows: dict[str, Rows]) -> None:
    steps = [name for name in rows if name.startswith("step_")]
    assert len(steps) == 24
    for name in steps:
        groups = _by_group(rows[name])
        assert [len(group) for group in groups.values()] == [8] * 16
        assert {row["step"] for row in rows[name]} == {int(name[-2:])}
        assert {row["data_source"] for row in rows[name]} == {"arithmetic", "code", "lookup"}


def test_every_array_is_as_long_as_the_response(rows: dict[str, Rows]) -> None:
    for name, of_file in rows.items():
        fields = PER_TOKEN + (CRITIC if name.startswith("step_") else ())
        for row in of_file:
            assert {len(row[field]) for field in fields} == {len(row["response_tokens"])}
            assert "".join(row["response_tokens"]) == row["response"]
            assert sum(row["token_level_rewards"]) == row["reward"]
            assert row["response_mask"][int(np.argmax(np.abs(row["token_level_rewards"])))] == 1


def test_log_probs_are_negative_and_differ(rows: dict[str, Rows]) -> None:
    for row in rows["step_05"]:
        mask = np.array(row["response_mask"], dtype=bool)
        old, ref, sampler = (np.array(row[f"{name}_log_probs"]) for name in ("old", "ref", "rollout"))
        for values in (old, ref, sampler):
            assert (values[mask] < 0).all() and (values[~mask] == 0).all()
        assert np.abs(old - sampler).mean() < np.abs(old - ref).mean()


def test_recorded_advantages_are_grpo(rows: dict[str, Rows]) -> None:
    for of_file in rows.values():
        for group in _by_group(of_file).values():
            scores = _rewards(group)
            expected = (scores - scores.mean()) / (np.std(scores, ddof=1) + 1e-6)
            for row, advantage in zip(group, expected, strict=True):
                mask = np.array(row["response_mask"])
                assert np.allclose(row["advantages"], advantage * mask, rtol=1e-6, atol=1e-7)


def test_tool_answers_are_masked(rows: dict[str, Rows]) -> None:
    masked = [row for row in rows["step_10"] if 0 in row["response_mask"]]
    assert {row["data_source"] for row in masked} == {"lookup"} and len(masked) > 30


def test_it_gets_better_and_then_wrong(rows: dict[str, Rows]) -> None:
    early, best, late = (rows[f"step_{step:02d}"] for step in (0, 15, 22))
    assert _rewards(early).mean() < 0.5 < 0.8 < _rewards(best).mean()
    assert _rewards(late).mean() < 0.5

    def without_signal(group: Rows) -> bool:
        return len(set(_rewards(group))) == 1

    assert _share(early, without_signal) < 0.1 < 0.3 <= _share(late, without_signal)
    cut = [row for row in late if row["truncated"]]
    assert len(cut) > 25 and {row["finish_reason"] for row in cut} == {"length"}
    assert not any(row["response_tokens"][-1] == "<|end|>" for row in cut)


def test_after_the_turn_one_task_is_below_the_batch_mean(rows: dict[str, Rows]) -> None:
    late = rows["step_23"]
    assert (_rewards(late, "code") < _rewards(late).mean()).all()
    assert (_rewards(late, "lookup") > _rewards(late).mean()).any()


def test_five_rewards(rows: dict[str, Rows]) -> None:
    assert _rewards(rows["five-rewards"]).tolist() == [1.0, 0.6, 0.2, 0.0, 0.7]
    first = [row["advantages"][0] for row in rows["five-rewards"]]
    # mean 0.5, squared distances 0.25 + 0.01 + 0.09 + 0.25 + 0.04 = 0.64, std sqrt(0.64 / 4) = 0.4
    assert np.allclose(first, [1.25, 0.25, -0.75, -1.25, 0.5], atol=1e-5)


def test_recall_turns_all_negative_under_batch_scope(rows: dict[str, Rows]) -> None:
    batch = rows["two-tasks"]
    recall = [row for row in batch if row["data_source"] == "recall"]
    own = np.array([row["advantages"][0] for row in recall])
    assert np.allclose(sorted(set(np.round(own, 3))), [-2.475, 0.354])
    every_token = np.concatenate([row["advantages"] for row in batch])
    assert round(every_token.mean(), 3) == 0.624 and (own < every_token.mean()).all()
    assert round(_rewards(batch).mean(), 3) == 0.359 and (_rewards(recall) < 0.359).all()
