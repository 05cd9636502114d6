"""A real application with two small batches whose every text carries a mark and is hostile."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from sqlalchemy import Engine
from starlette.testclient import TestClient

from app.main import create_app
from app.settings import Settings
from tests.builders import make_batch, make_estimate

#: In every prompt, response, token and group id of the batch, and nowhere else.
MARK = "CANARY"
HOSTILE = f"{MARK}</script><script>alert(1)</script><!--\u2028<img src=x onerror=alert(2)>\u202e]]>"
GROUPS = [f"{MARK} what is {number} + 2? {HOSTILE}" for number in range(2)]
REWARDS = ((1.0, 0.5, 0.0, 0.75), (0.0, 0.0, 1.0, 0.25))
ADVANTAGES = [0.9, -0.1, -1.2, 0.4, -0.6, -0.6, 1.4, -0.2]
LENGTH = 6


@dataclass(frozen=True)
class World:
    """The application, asked by a client, and the ids of what is in it."""

    client: TestClient
    engine: Engine
    settings: Settings
    batch: str
    group: str
    estimate: str
    other_batch: str
    other_estimate: str

    def dashboard(self, *panels: dict[str, Any], title: str = "Step 3", note: str = "") -> str:
        body = {"title": title, "note": note, "panels": list(panels)}
        answer = self.client.post("/api/v1/dashboards", json=body)
        assert answer.status_code == 201, answer.text
        return str(answer.json()["id"])

    def share(self, dashboard: str, **body: Any) -> dict[str, Any]:
        answer = self.client.post(f"/api/v1/dashboards/{dashboard}/shares", json=body)
        assert answer.status_code == 201, answer.text
        made: dict[str, Any] = answer.json()
        return made

    def panels(self) -> list[dict[str, Any]]:
        """One panel of each kind."""
        return [
            {"figure": "group_rewards", "batch": self.batch, "caption": "rewards"},
            {"figure": "token_heatmap", "batch": self.batch, "estimate": self.estimate},
            {"group": self.group, "batch": self.batch, "estimate": self.estimate},
            {"rollout": 1, "batch": self.batch, "estimate": self.estimate},
            {"text": "a note of ours"},
        ]


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[TestClient, Settings]]:
    """The application, once for all tests of this folder."""
    settings = Settings(data_dir=tmp_path_factory.mktemp("sharing"), database_url=None)
    with TestClient(create_app(settings), base_url="http://127.0.0.1") as client:
        yield client, settings


@pytest.fixture
def world(site: tuple[TestClient, Settings]) -> World:
    """Two batches of the test's own."""
    client, settings = site
    engine: Engine = client.app.state.engine  # type: ignore[attr-defined]
    batch = add_batch(engine, "run-of-ours", 3)
    other = add_batch(engine, "somebody-elses-run", 4)
    estimates = [make_estimate(engine, name, ADVANTAGES, default=True).id for name in (batch, other)]
    return World(client, engine, settings, batch, GROUPS[0], estimates[0], other, estimates[1])


def add_batch(engine: Engine, run: str, step: int) -> str:
    """A ready batch of two groups of four."""
    count = 2 * len(REWARDS[0])
    tokens = [HOSTILE, *(f" {MARK}{i}" for i in range(LENGTH - 1))]
    arrays: dict[str, Any] = {
        "response_ids": [range(LENGTH)] * count,
        "response_tokens": [tokens] * count,
        "response_mask": [[1] * LENGTH] * count,
        "token_level_rewards": [[0.0] * (LENGTH - 1) + [1.0]] * count,
        "values": [[0.5] * LENGTH] * count,
    }
    columns = {
        name: [value] * count
        for name, value in {
            "response": "".join(tokens),
            "ground_truth": HOSTILE,
            "sample_id": HOSTILE,
            "finish_reason": "stop",
        }.items()
    }
    named = ("group_id", "reward", "prompt", "response", "data_source", *arrays)
    return make_batch(
        engine,
        REWARDS,
        run=run,
        step=step,
        split="train",
        arrays=arrays,
        group_ids=GROUPS,
        data_sources=["sums", "sums"],
        prompts=[HOSTILE, HOSTILE],
        columns=columns,
        fields=dict.fromkeys(named, "recorded"),
    ).id
