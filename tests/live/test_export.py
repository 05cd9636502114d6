"""`vantage export`: a batch or a run as a file, read back by this server and by other tools."""

import json
import sys
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from app import cli
from app.errors import AppError
from app.ingest import File, Options, Problem, Rollout, read_all
from app.remote import Remote
from app.settings import Settings
from app.take_out import take_out
from tests.acceptance.processes import Server

RUN = "to-export"


def rows(step: int) -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = []
    for i in range(8):
        length = 3 + i % 3
        made.append(
            {
                "step": step, "group_id": f"g{i // 4}", "prompt": f"p{i // 4}", "response": f"r{i} é",
                "reward": (i % 4) / 4, "reward_components": {"right": i / 8, "form": None},
                "response_ids": list(range(i, i + length)), "response_mask": [1] * (length - 1) + [0],
                "old_log_probs": [-0.1 * (k + 1) for k in range(length)], "note": {"i": i},
            }
        )  # fmt: skip
    made[3]["old_log_probs"] = [None, -0.5, -0.25][: len(made[3]["old_log_probs"])]
    made[3]["_nonfinite"] = {"old_log_probs": {"0": "-Infinity"}}
    return made


@pytest.fixture(scope="module")
def remote(live: Server) -> Remote:
    for step in (1, 2):
        body = "".join(json.dumps(row) + "\n" for row in rows(step))
        answer = httpx.post(
            f"{live.url}/api/v1/uploads", params={"run": RUN, "filename": "x.jsonl", "wait": 60},
            content=body.encode(), timeout=120,
        )  # fmt: skip
        assert answer.status_code == 201, answer.text
    return Remote(live.url)


def newest(remote: Remote) -> str:
    return str(remote.get(f"/runs/{RUN}/steps")["items"][-1]["batch"])


def read(path: Path) -> tuple[list[Rollout], list[Problem]]:
    items = list(read_all([File(path, path.name)], Options(), Settings(data_dir=path.parent)))
    return [i for i in items if isinstance(i, Rollout)], [i for i in items if isinstance(i, Problem)]


@pytest.mark.parametrize("format", ["jsonl", "parquet", "npz"])
def test_what_is_exported_is_read_back_as_it_was(remote: Remote, tmp_path: Path, format: str) -> None:
    path = tmp_path / f"batch.{format}"
    (said,) = take_out(remote, newest(remote), format, path, None)
    assert said == f"{path}: 8 rollouts of 1 batch"
    found, problems = read(path)
    assert {p.code for p in problems if p.severity != "info"} == {"nonfinite"}
    for row, given in zip(found, rows(2), strict=True):
        assert (row.step, row.group_id, row.prompt, row.response) == (
            2, given["group_id"], given["prompt"], given["response"],
        )  # fmt: skip
        assert row.reward == given["reward"]
        assert row.tokens["response_ids"].tolist() == given["response_ids"]
        assert row.tokens["response_mask"].tolist() == given["response_mask"]
        values = [-np.inf if v is None else v for v in given["old_log_probs"]]
        assert row.tokens["old_log_probs"].tolist() == values
        if format != "npz":
            assert row.reward_components == given["reward_components"]
            assert row.extra["note"] == given["note"]


def test_a_run_with_computed_columns(remote: Remote, tmp_path: Path) -> None:
    path = tmp_path / "run.parquet"
    (said,) = take_out(remote, RUN, "parquet", path, "grpo/verl")
    assert "16 rollouts of 2 batches" in said
    table = pq.read_table(path).to_pydict()
    assert table["step"] == [1] * 8 + [2] * 8
    for batch in range(2):
        for group in range(2):
            own = slice(8 * batch + 4 * group, 8 * batch + 4 * group + 4)
            rewards = np.array(table["reward"][own])
            expected = (rewards - rewards.mean()) / (rewards.std(ddof=1) + 1e-6)
            for values, mask, one in zip(
                table["computed_advantages"][own], table["response_mask"][own], expected, strict=True
            ):
                assert values == pytest.approx([one * m for m in mask], abs=1e-6)
    header = json.loads(pq.read_schema(path).metadata[b"rollout_batch"])
    assert header["computed"]["convention"] == "grpo/verl"


def test_arrow_opens_in_arrow(remote: Remote, tmp_path: Path) -> None:
    path = tmp_path / "run.arrow"
    list(take_out(remote, RUN, "arrow", path, None))
    with pa.memory_map(str(path)) as source:
        table = pa.ipc.open_file(source).read_all()
    assert table.num_rows == 16
    assert table["response"].to_pylist()[:2] == ["r0 é", "r1 é"]


def test_what_is_not_there_is_said_and_leaves_no_file(remote: Remote, tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    with pytest.raises(AppError, match="no batch and no run 'nothing'"):
        list(take_out(remote, "nothing", "parquet", path, None))
    with pytest.raises(AppError):
        list(take_out(remote, RUN, "parquet", path, "gae/verl"))
    assert list(tmp_path.iterdir()) == []


def test_the_command(
    remote: Remote, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "out.jsonl"
    arguments = ["vantage", "export", RUN, "--format", "jsonl", "--url", remote.url, "-o", str(path)]
    monkeypatch.setattr(sys, "argv", arguments)
    with pytest.raises(SystemExit) as left:
        cli.main()
    assert left.value.code == 0
    assert "16 rollouts" in capsys.readouterr().out
    assert len(path.read_text().splitlines()) == 17
    monkeypatch.setattr(sys, "argv", [*arguments[:5], "--url", "here"])
    with pytest.raises(SystemExit) as left:
        cli.main()
    assert left.value.code == 2
    assert "http://host:port" in capsys.readouterr().err
