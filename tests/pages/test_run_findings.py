"""A run whose reward collapses says so on its page, in its JSON and by REST, and leads to the step."""

import json
import re

import numpy as np
import pytest

from tests.pages.conftest import Site

STEPS, AT = 10, 6


@pytest.fixture
def collapsed(fresh: Site) -> str:
    """The id of the batch where the run named "collapsed" turns."""
    random = np.random.default_rng(0)
    batches = []
    for step in range(STEPS):
        ease = 0.75 if step < AT else 0.05
        rows = [
            {
                "step": step,
                "group_id": f"g{i // 8}",
                "prompt": f"p{i // 8}",
                "response": f"answer {step} {i}",
                "reward": float(random.random() < ease),
            }
            for i in range(64)
        ]
        content = "".join(json.dumps(each) + "\n" for each in rows).encode()
        batches += fresh.place.ingest(content, filename=f"step-{step}.jsonl", run="collapsed")["batches"]
    return str(batches[AT]["id"])


def test_the_page_and_the_api_say_where_it_turned(fresh: Site, collapsed: str) -> None:
    (said,) = [
        each for each in fresh.data("/api/v1/runs/collapsed")["findings"] if each["code"] == "reward_collapse"
    ]
    assert (said["step"], said["batch"], said["severity"]) == (AT, collapsed, "critical")
    page = fresh.page("/runs/collapsed")
    assert "What changed" in page and said["title"] in re.sub("<[^>]+>", "", page)
    assert f'<a href="/batches/{collapsed}">step {AT}</a>' in page
    shown = fresh.data("/runs/collapsed.json")["findings"]
    assert said["title"] in {each["title"] for each in shown}


def test_a_run_of_one_step_says_nothing(site: Site) -> None:
    assert "What changed" not in site.page(f"/runs/{site.runs['two-tasks']}")
