"""A server killed in the middle of a piece: what it says is here is what the disk holds, and the rest
completes it."""

import hashlib
import random
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.acceptance.processes import Server, serving, wait_for

pytestmark = pytest.mark.acceptance

KEY = {"Upload-Key": "the secret of who began it"}


def begin(client: httpx.Client, size: int) -> str:
    body = {"files": [{"filename": "large.jsonl", "bytes": size}]}
    answer = client.post("/api/v1/transfers", json=body, headers=KEY)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


def stands(client: httpx.Client, id: str) -> int:
    return int(client.head(f"/api/v1/transfers/{id}", headers=KEY).headers["upload-offset"])


def send_until_cut(server: Server, id: str, content: bytes, cut: threading.Event) -> None:
    """The content as one piece, its end only when the server is gone."""

    def halting() -> Iterator[bytes]:
        yield content[:-1000]
        cut.wait(120)
        yield content[-1000:]

    headers = {**KEY, "Upload-Offset": "0", "Content-Length": str(len(content))}
    with server.client as client, pytest.raises(httpx.TransportError):
        client.patch(f"/api/v1/transfers/{id}", content=halting(), headers=headers)


def test_a_killed_server_goes_on_where_the_disk_stands(tmp_path: Path) -> None:
    data_dir, cut = tmp_path / "data", threading.Event()
    content = random.Random(0).randbytes(3_000_000)
    with serving(data_dir, {}, "web") as server, server.client as client:
        id = begin(client, len(content))
        path = data_dir / "spool" / f"{id}.0"
        sender = threading.Thread(target=send_until_cut, args=(server, id, content, cut))
        sender.start()
        wait_for(lambda: path.exists() and path.stat().st_size, "bytes are on the disk")
        server.kill()
        server.ended()
        cut.set()
        sender.join()
    here = path.stat().st_size
    assert 0 < here < len(content)
    assert content.startswith(path.read_bytes())

    with serving(data_dir, {}, "web") as server, server.client as client:
        assert stands(client, id) == here, "what it says is what the disk holds"
        headers = {**KEY, "Upload-Offset": "0"}
        wrong = client.patch(f"/api/v1/transfers/{id}", content=content, headers=headers)
        assert (wrong.status_code, wrong.json()["offset"]) == (409, here)
        headers = {**KEY, "Upload-Offset": str(here)}
        assert client.patch(f"/api/v1/transfers/{id}", content=content[here:], headers=headers).is_success
        checked = {"sha256": hashlib.sha256(content).hexdigest()}
        done = client.post(f"/api/v1/transfers/{id}/complete", json=checked, headers=KEY)
        assert done.status_code == 202, done.text
        assert (done.json()["bytes"], done.json()["sha256"]) == (len(content), checked["sha256"])
