"""A large file goes to the server in pieces: a server that is killed in the middle gets only the rest."""

import json
import random
import threading
from pathlib import Path
from typing import Any

import pytest

from app import sending
from app.remote import Away, Changed, Remote
from app.sending import Ticket
from storage import transfers
from storage.database import read
from tests.acceptance.processes import Server, database, serving, wait_for
from tests.live.test_watch import QUIET, Following

LARGE, PIECE = 1 << 20, 1 << 15


def dump(step: int, characters: int) -> bytes:
    """verl's dump of a step, its texts unlike each other."""
    draw = random.Random(step)
    rows = [
        {
            "input": "q",
            "output": draw.randbytes(characters // 8).hex(),
            "gts": "1",
            "score": i % 2,
            "step": step,
        }
        for i in range(4)
    ]
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sending, "LARGE", LARGE)
    monkeypatch.setattr(sending, "PIECE", PIECE)


def killed_in_the_middle(server: Server, spool: Path, look: Any) -> int:
    """Kill the server while `look` sends to it; how many bytes are on its disk."""
    said: list[str] = []
    sender = threading.Thread(target=lambda: said.extend(look()))
    sender.start()

    def arrived() -> int:
        return sum(path.stat().st_size for path in spool.glob("*.0"))

    wait_for(lambda: arrived() >= 4 * PIECE, "pieces are on the disk")
    server.kill()
    server.ended()
    sender.join()
    assert any(line.startswith("waiting for the server") for line in said), said
    return arrived()


def test_a_watch_goes_on_where_a_killed_server_was(tmp_path: Path, free_port: int) -> None:
    root, served = tmp_path / "rollouts", tmp_path / "served"
    root.mkdir()
    content = dump(7, 5 << 20)
    (root / "7.jsonl").write_bytes(content)
    following = Following(root, Remote(f"http://127.0.0.1:{free_port}"), "large", tmp_path / "own")
    with serving(served, {}, port=free_port) as server:
        following.pass_by(0)
        here = killed_in_the_middle(server, served / "spool", lambda: following.pass_by(QUIET))
    assert 0 < here < len(content)
    (ticket,) = following.watcher.memory.sending.values()

    following.start()  # the watch too begins anew, with nothing but its state file
    with serving(served, {}, port=free_port):
        headers = {"Upload-Key": ticket.key}
        with following.remote.answer("GET", f"/transfers/{ticket.id}", {}, headers) as answer:
            assert json.loads(answer.read())["offset"] == here
        following.settle()
        assert following.steps == [(7, 4, True)]
    engine = database(served, {})
    with read(engine) as session:
        found = transfers.get(session, ticket.id)
        assert found is not None and found.upload_id == following.watcher.memory.taken["7.jsonl"].upload
    engine.dispose()
    assert not following.watcher.memory.sending


class Kept:
    """A ticket in memory."""

    ticket: Ticket | None = None

    def read(self) -> Ticket | None:
        return self.ticket

    def keep(self, ticket: Ticket | None) -> None:
        self.ticket = ticket


def test_several_files_are_one_stream_and_other_contents_begin_anew(live: Server, tmp_path: Path) -> None:
    remote, notes = Remote(live.url), Kept()
    files = []
    for step in (1, 2, 3):
        path = tmp_path / f"{step}.jsonl"
        path.write_bytes(dump(step, 1 << 20))
        files.append((path, f"dump/{path.name}"))
    sizes = [path.stat().st_size for path, _ in files]
    query: dict[str, Any] = {"run": "several"}
    ticket, here = sending.standing(remote, files, sizes, query, "first", notes)
    assert here == 0 and notes.ticket == ticket
    receipt = sending.upload(remote, files, query, "second", notes)
    assert receipt["bytes"] == sum(sizes) and notes.ticket is None
    again, headers = f"/transfers/{ticket.id}", {"Upload-Key": ticket.key}
    with pytest.raises(sending.Refused) as gone, remote.answer("GET", again, {}, headers):
        pass
    assert gone.value.answered == 404


def test_a_part_is_cut_from_the_files_wherever_it_lies(tmp_path: Path) -> None:
    contents = [b"abc", b"", b"defgh", b"i"]
    paths = [tmp_path / str(number) for number in range(4)]
    for path, content in zip(paths, contents, strict=True):
        path.write_bytes(content)
    whole, sizes = b"".join(contents), [len(content) for content in contents]
    for start in range(len(whole)):
        for size in range(1, len(whole) - start + 1):
            assert b"".join(sending.part(paths, sizes, start, size)) == whole[start : start + size]
    with pytest.raises(Changed, match="became shorter"):
        list(sending.part(paths, [4, 0, 5, 1], 0, 5))


def test_a_file_that_changed_under_way_is_not_taken(live: Server, tmp_path: Path) -> None:
    path, notes = tmp_path / "1.jsonl", Kept()
    path.write_bytes(dump(1, 2 << 20))
    remote, files = Remote(live.url), [(path, "1.jsonl")]
    size = path.stat().st_size
    ticket, _ = sending.standing(remote, files, [size], {"run": "changed"}, "same", notes)
    headers = {"Upload-Key": ticket.key, "Upload-Offset": "0", "Content-Length": "5"}
    headers["Content-Type"] = "application/octet-stream"
    with remote.answer("PATCH", f"/transfers/{ticket.id}", {}, headers, [b"other"]):
        pass
    with pytest.raises(Changed):
        sending.upload(remote, files, {"run": "changed"}, "same", notes)
    assert notes.ticket is None
    assert sending.upload(remote, files, {"run": "changed"}, "same", notes)["bytes"] == size


def test_without_a_server_the_ticket_stays(tmp_path: Path, free_port: int) -> None:
    path, notes = tmp_path / "1.jsonl", Kept()
    path.write_bytes(dump(1, 2 << 20))
    notes.keep(Ticket("0123456789abcdef", "secret of a test", "same"))
    with pytest.raises(Away):
        sending.upload(Remote(f"http://127.0.0.1:{free_port}"), [(path, "1.jsonl")], {}, "same", notes)
    assert notes.ticket is not None
