"""Another colour for a text that is longer than what can be seen of it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Site, upload

pytestmark = pytest.mark.browser

TOKENS = 6_000
CLASSES = "(all) => all.map((each) => each.className)"
#: The browser has nothing else to do only when the test says so.
HOLD = "window.requestIdleCallback = (work) => { window.idle = work; };"
RELEASE = """() => {
  let times = 0;
  for (; window.idle; times += 1) {
    const work = window.idle;
    window.idle = null;
    work({ timeRemaining: () => 0 });
  }
  return times;
}"""


def write_long(path: Path) -> Path:
    row: dict[str, Any] = {
        "step": 1,
        "group_id": "g",
        "prompt": "p",
        "response": " a" * TOKENS,
        "response_tokens": [" a"] * TOKENS,
        "response_mask": [1] * TOKENS,
        "token_level_rewards": [0.0] * TOKENS,
        "values": [number % 11 - 5.0 for number in range(TOKENS)],
    }
    rows: list[dict[str, Any]] = [{"_header": {"schema": "rollout-batch", "version": 1, "run": "long"}}]
    rows += [{**row, "reward": reward} for reward in (0.0, 1.0)]
    path.write_bytes(b"".join(orjson.dumps(each) + b"\n" for each in rows))
    return path


def test_what_can_be_seen_changes_first(visit: Callable[..., Page], site: Site, tmp_path: Path) -> None:
    with httpx.Client(base_url=site.url, timeout=60) as client:
        batch = upload(client, write_long(tmp_path / "long.jsonl"))["batches"][0]["id"]
    address = f"/batches/{batch}/rollouts/1"
    page = visit(f"{address}?color=value")
    page.add_init_script(HOLD)
    tokens, region = page.locator(".tokens .chunk > span"), page.locator(".tokens")
    in_value = tokens.evaluate_all(CLASSES)
    page.goto(address)
    in_advantage = tokens.evaluate_all(CLASSES)
    assert in_value[-1] != in_advantage[-1]
    page.keyboard.press("v")
    expect(region).to_have_attribute("aria-label", "Tokens of the response, coloured by value")
    now = tokens.evaluate_all(CLASSES)
    assert now[:400] == in_value[:400] and now[-400:] == in_advantage[-400:]
    region.evaluate("(box) => box.scrollTo(0, box.scrollHeight)")
    page.wait_for_function(
        "(name) => document.querySelector('.chunk:last-child > :last-child').className === name",
        arg=in_value[-1],
    )
    assert page.evaluate(RELEASE) > 1  # not all of it at once
    assert tokens.evaluate_all(CLASSES) == in_value
    expect(region).not_to_have_attribute("aria-busy", "true")


def test_another_colour_before_the_last_one_is_everywhere(
    visit: Callable[..., Page], site: Site, tmp_path: Path
) -> None:
    with httpx.Client(base_url=site.url, timeout=60) as client:
        batch = upload(client, write_long(tmp_path / "long.jsonl"))["batches"][0]["id"]
    page = visit()
    page.add_init_script(HOLD)
    page.goto(f"/batches/{batch}/rollouts/1")
    tokens, region = page.locator(".tokens .chunk > span"), page.locator(".tokens")
    in_advantage = tokens.evaluate_all(CLASSES)
    for key, name in (("v", "value"), ("a", "advantage")):
        page.keyboard.press(key)
        expect(region).to_have_attribute("aria-label", f"Tokens of the response, coloured by {name}")
    page.evaluate(RELEASE)
    assert tokens.evaluate_all(CLASSES) == in_advantage
