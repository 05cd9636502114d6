"""The real application with small batches in it: two tasks, one hostile, one of text and reward only."""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import pytest
from starlette.testclient import TestClient

from app.example import small
from app.main import create_app
from app.settings import Settings
from tests.working import Place, make_template

BASE = "http://127.0.0.1:8000"
HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(1)>\u202eabc\u200b\u2028{{ 7*7 }}"


@dataclass(frozen=True, slots=True)
class Site:
    """`batches` by name: "two-tasks", "hostile", "plain"."""

    client: TestClient
    place: Place
    batches: dict[str, str]
    uploads: dict[str, str]
    runs: dict[str, str]

    def page(self, path: str, status: int = 200) -> str:
        answer = self.client.get(path, headers={"Accept": "text/html"})
        assert answer.status_code == status, answer.text[-2000:]
        assert answer.headers["content-type"].startswith("text/html")
        return str(answer.text)

    def data(self, path: str, status: int = 200) -> Any:
        answer = self.client.get(path)
        assert answer.status_code == status, answer.text[-2000:]
        return answer.json()


def hostile_rows() -> list[dict[str, Any]]:
    texts = ["Now", HOSTILE, "\n", "\t", "<|im_end|>", " end"]
    count = len(texts)
    return [
        {
            "step": 3,
            "group_id": f"{HOSTILE}-{number // 4}",
            "data_source": HOSTILE,
            "prompt": HOSTILE,
            "response": "".join(texts),
            "response_tokens": texts,
            "response_ids": list(range(count)),
            "response_mask": [1, 1, 0, 1, 1, 1],
            "values": [0.1 * number] * count,
            "token_level_rewards": [0.0] * (count - 1) + [float(number % 2)],
            "old_log_probs": [-0.5] * count,
            "reward": float(number % 2),
            "ground_truth": HOSTILE,
            "finish_reason": HOSTILE,
            "reward_components": {HOSTILE: float(number % 2)},
        }
        for number in range(8)
    ]


def plain_rows() -> list[dict[str, Any]]:
    """A text and a reward per row: a first-class input."""
    return [
        {"prompt": f"p{number // 4}", "response": f"answer {number}\nand more", "reward": float(number % 3)}
        for number in range(12)
    ]


def jsonl(rows: Any) -> bytes:
    return b"".join(orjson.dumps(row, option=orjson.OPT_SERIALIZE_NUMPY) + b"\n" for row in rows)


@pytest.fixture(scope="package")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Read by tests, not written to."""
    folder = tmp_path_factory.mktemp("site")
    shutil.copytree(make_template(tmp_path_factory.mktemp("site-template")), folder / "data")
    settings = Settings(data_dir=folder / "data")
    with TestClient(create_app(settings), base_url=BASE) as client:
        state = client.app.state  # type: ignore[attr-defined]
        place = Place(settings, state.engine, state.jobs)
        files = {"two-tasks": small.two_tasks(), "hostile": hostile_rows(), "plain": plain_rows()}
        uploads = {
            name: place.upload(jsonl(rows), f"{name}.jsonl", run=name)[0] for name, rows in files.items()
        }
        place.work()
        batches, runs = {}, {}
        for name, upload_id in uploads.items():
            receipt = client.get(f"/api/v1/uploads/{upload_id}").json()
            assert receipt["batches"], receipt
            batches[name] = receipt["batches"][0]["id"]
        for run in client.get("/api/v1/runs").json()["items"]:
            runs[run["name"]] = run["id"]
        yield Site(client, place, batches, uploads, runs)


@pytest.fixture
def fresh(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """An installation with nothing in it."""
    shutil.copytree(make_template(tmp_path_factory.mktemp("fresh-template")), tmp_path / "data")
    settings = Settings(data_dir=tmp_path / "data")
    with TestClient(create_app(settings), base_url=BASE) as client:
        state = client.app.state  # type: ignore[attr-defined]
        yield Site(client, Place(settings, state.engine, state.jobs), {}, {}, {})
