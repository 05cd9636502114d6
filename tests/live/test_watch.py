"""Following a dump folder: a file is taken when it is written, once, whatever is killed meanwhile."""

import json
import os
import shutil
import signal
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from app.remote import Remote
from app.settings import Settings
from app.watch import Memory, Watched, Watcher, state_path
from tests.acceptance.processes import Process, Server, running, serving, wait_for

QUIET = 2.0


def step_file(step: int, said: str = "answer", rows: int = 4) -> bytes:
    """verl's dump of a step."""
    held = [
        {"input": f"q{i // 2}", "output": f"{said} {i}", "gts": "1", "score": i % 2, "step": step}
        for i in range(rows)
    ]
    return b"".join(json.dumps(row).encode() + b"\n" for row in held)


def trl_table(step: int, said: str) -> pa.Table:
    columns = {"step": [step] * 2, "prompt": ["p", "p"], "completion": [said, "b"], "right": [0.0, 1.0]}
    return pa.table({**columns, "advantage": [-1.0, 1.0]})


@dataclass
class Following:
    """A watcher over a folder whose clock the test moves."""

    root: Path
    remote: Remote
    run: str
    data: Path
    options: dict[str, Any] = field(default_factory=dict)
    now: float = 0.0

    def __post_init__(self) -> None:
        self.start()

    def start(self) -> None:
        """Begin anew, with nothing but the state file."""
        watched = Watched(self.root, self.run, quiet=QUIET, **self.options)
        settings = Settings(data_dir=self.data)
        memory = Memory(state_path(settings, watched, self.remote.url))
        memory.load()
        self.watcher = Watcher(watched, self.remote, memory, settings, lambda: self.now)

    def pass_by(self, seconds: float) -> list[str]:
        """The lines of a look after so long."""
        self.now += seconds
        return list(self.watcher.look())

    def settle(self) -> list[str]:
        """The lines until nothing is open any more, with the quiet time gone by."""
        lines = self.pass_by(0) + self.pass_by(QUIET)

        def done() -> bool:
            lines.extend(self.watcher.look())
            return all(t.upload is None or t.state == "succeeded" for t in self.watcher.memory.taken.values())

        wait_for(done, "every file is read")
        return lines

    @property
    def steps(self) -> list[tuple[int, int, bool]]:
        """(step, rollouts, newest) of each batch of the run, oldest first where a step has several."""
        found = self.remote.get(f"/runs/{self.run}/steps")["items"]
        return [(row["step"], row["rollouts"], row["newest"]) for row in found]


@pytest.fixture
def following(live: Server, tmp_path: Path, request: pytest.FixtureRequest) -> Following:
    root = tmp_path / "rollouts"
    root.mkdir()
    return Following(
        root, Remote(live.url), request.node.name.replace("[", "-").rstrip("]"), tmp_path / "own"
    )


def test_a_file_is_taken_when_it_was_quiet_for_long_enough(following: Following) -> None:
    path = following.root / "1.jsonl"
    path.write_bytes(step_file(1)[:50])
    assert following.pass_by(0) == []
    path.write_bytes(step_file(1))
    following.pass_by(QUIET)
    assert following.watcher.memory.taken == {}, "it changed a moment ago"
    following.pass_by(QUIET)
    assert list(following.watcher.memory.taken) == ["1.jsonl"]
    said = following.settle()
    assert any("4 rows, 4 accepted" in line for line in said)
    assert following.steps == [(1, 4, True)]


def test_a_restart_takes_nothing_twice_and_misses_nothing(following: Following) -> None:
    for step in (1, 2):
        (following.root / f"{step}.jsonl").write_bytes(step_file(step))
    following.settle()
    (following.root / "3.jsonl").write_bytes(step_file(3))
    following.start()
    following.settle()
    assert following.steps == [(1, 4, True), (2, 4, True), (3, 4, True)]
    shutil.rmtree(following.data)
    following.start()
    following.settle()
    assert following.steps == [(1, 4, True), (2, 4, True), (3, 4, True)], "the server knows the bytes"


def test_a_file_written_anew_is_a_newer_version_of_its_step(following: Following) -> None:
    """TRL writes the last step's file again, at times with the same rows."""
    path = following.root / "completions_00001.parquet"
    pq.write_table(trl_table(1, "first"), path)
    following.settle()
    os.utime(path, (1, 1))
    following.settle()
    assert following.steps == [(1, 2, True)]
    pq.write_table(trl_table(1, "second"), path)
    following.settle()
    assert following.steps == [(1, 2, False), (1, 2, True)]


def test_what_is_being_written_is_left_alone(following: Following) -> None:
    for name in (".1.jsonl", "1.jsonl.tmp", "1.jsonl.part", "1.jsonl~", "sub/.hidden/1.jsonl"):
        (following.root / name).parent.mkdir(parents=True, exist_ok=True)
        (following.root / name).write_bytes(step_file(1))
    following.settle()
    assert following.watcher.memory.taken == {}
    (following.root / "1.jsonl.tmp").rename(following.root / "1.jsonl")
    following.settle()
    assert following.steps == [(1, 4, True)]


def test_a_file_without_its_end_gets_more_time(following: Following) -> None:
    path = following.root / "completions_00002.parquet"
    pq.write_table(trl_table(2, "a"), path)
    content = path.read_bytes()
    path.write_bytes(content[:-8])
    following.pass_by(0)
    following.pass_by(3 * QUIET)
    assert following.watcher.memory.taken == {}
    path.write_bytes(content)
    following.settle()
    assert following.steps == [(2, 2, True)]


def test_equal_bytes_of_two_steps_are_two_steps(following: Following) -> None:
    row = json.dumps({"input": "q", "output": "a", "gts": "1", "score": 1}).encode() + b"\n"
    for step in (1, 2):
        (following.root / f"{step}.jsonl").write_bytes(row)
    following.settle()
    assert following.steps == [(1, 1, True), (2, 1, True)]


def test_a_marker_makes_a_folder_one_upload(following: Following) -> None:
    folder = following.root / "token_exports" / "step_3"
    folder.mkdir(parents=True)
    for rank in range(2):
        rows = [
            {
                "step": 3, "rank": rank, "export_sequence_idx": i, "token_ids": [1, 2, 10 * rank + i],
                "loss_mask": [False, False, True], "inference_logprobs": [0.0, 0.0, -0.5],
                "advantages": [0.0, 0.0, 1.0], "trainer_logprobs": [0.0, 0.0, -0.5],
            }
            for i in range(2)
        ]  # fmt: skip
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (folder / f"rank_{rank}.jsonl").write_text(text)
        following.pass_by(0)
        said = following.pass_by(QUIET)
        assert any("waits for STABLE" in line for line in said)
    assert following.watcher.memory.taken == {}
    (folder / "STABLE").touch()
    following.pass_by(0)
    assert list(following.watcher.memory.taken) == ["token_exports/step_3"]
    following.settle()
    assert following.steps == [(3, 4, True)]


def test_folders_may_be_the_units(following: Following) -> None:
    following.options["folders"] = True
    following.start()
    for step in (1, 2):
        for part in range(2):
            path = following.root / f"step_{step}" / f"part_{part}.jsonl"
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(step_file(step, f"part {part}"))
    following.settle()
    assert following.steps == [(1, 8, True), (2, 8, True)]


def test_what_the_server_does_not_take_is_said_once(following: Following) -> None:
    (following.root / "page.jsonl").write_bytes(b"<!doctype html><html><body>no</body></html>\n")
    (following.root / "notes.txt").write_bytes(b"")
    following.pass_by(0)
    lines = following.pass_by(PATIENT)

    def said() -> bool:
        lines.extend(following.watcher.look())
        return any(line.startswith("page.jsonl") for line in lines)

    wait_for(said, "it is said")
    following.pass_by(PATIENT)
    assert sum(line.startswith("page.jsonl: failed") for line in lines) == 1


PATIENT = 20 * QUIET


@pytest.fixture
def process_of(tmp_path: Path) -> Iterator[Any]:
    yield lambda *arguments: running("watch", tmp_path / "own" / "data", {}, "watch", *arguments)


def taken(root: Path, data: Path) -> set[str]:
    """What the state file of the one watch in this data folder says was handed over."""
    for path in (data / "watch").glob("*.json"):
        return set(json.loads(path.read_text())["taken"])
    return set()


def test_both_sides_may_be_killed(tmp_path: Path, free_port: int, process_of: Any) -> None:
    """The real commands: the server is killed and comes back, then the watch is."""
    root, own = tmp_path / "rollouts", tmp_path / "own" / "data"
    own.mkdir(parents=True)
    url = f"http://127.0.0.1:{free_port}"
    asked = (str(root), "--run", "live", "--url", url, "--quiet", "0.1")

    def write(step: int) -> None:
        (root / f"{step}.jsonl").write_bytes(step_file(step))

    with process_of(*asked) as first:
        started(first)
        with serving(tmp_path / "served", {}, port=free_port) as server:
            write(1)
            wait_for(lambda: taken(root, own) == {"1.jsonl"}, "the first file is taken")
            server.kill()
            server.ended()
        write(2)
        line(first, "waiting for the server")
        first.kill(signal.SIGKILL)
        first.ended()
    write(3)
    with serving(tmp_path / "served", {}, port=free_port), process_of(*asked) as second:
        write(4)
        remote = Remote(url)

        def steps() -> list[tuple[int, int]]:
            found = remote.get("/runs")["items"] and remote.get("/runs/live/steps")["items"]
            return [(row["step"], row["rollouts"]) for row in found]

        wait_for(lambda: len(steps()) >= 4, "every step is there")
        assert steps() == [(1, 4), (2, 4), (3, 4), (4, 4)]
        second.kill(signal.SIGTERM)
        assert second.ended() == 0


def started(process: Process) -> None:
    line(process, "Following")


def line(process: Process, start: str) -> None:
    """Read what the command says until a line begins so."""
    assert process.popen.stdout is not None
    for said in process.popen.stdout:
        if said.startswith(start):
            return
    raise AssertionError(f"never said {start!r}; {process.log.read_text()[-2000:]}")
