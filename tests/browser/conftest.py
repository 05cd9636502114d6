"""A real server with two batches, and a real Chromium in which nothing may go wrong unnoticed."""

import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Request, sync_playwright

from app.example import lines, small, story
from tests.acceptance.processes import serving, wait_for

#: What nothing of a model's text may become: markup, another order of the page, a script that runs.
HOSTILE = "</script><script>window.ran = true</script><img src=x onerror='window.ran = true'>\u202eabc\u2028"
#: A slow machine under load.
PATIENCE_MS = 20_000
LOCAL = ("data:", "blob:", "about:")

DRAWN = """() => [...document.querySelectorAll("figure.chart")].every(
  (chart) => chart.dataset.state && !chart.matches(".busy"))"""

REPORT = """document.addEventListener("securitypolicyviolation", (event) =>
  console.error("policy violation", event.effectiveDirective, event.blockedURI, event.sourceFile));"""


@dataclass(frozen=True)
class Site:
    """The server, and the batches that are in it."""

    url: str
    two_tasks: str
    example: str
    run: str
    upload: str
    hostile_file: Path


@dataclass
class Watch:
    """Notes what a page must not do. `allowed`: parts of console errors that the test itself provokes."""

    origin: str
    faults: list[str] = field(default_factory=list)
    allowed: list[str] = field(default_factory=list)

    def over(self, context: BrowserContext) -> None:
        context.add_init_script(REPORT)
        context.set_default_timeout(PATIENCE_MS)
        context.on("console", self.console)
        context.on("weberror", lambda error: self.faults.append(f"error: {error.error}"))
        context.on("request", self.request)

    def console(self, message: ConsoleMessage) -> None:
        expected = any(part in message.text for part in self.allowed)
        if message.type in ("error", "warning") and not expected:
            self.faults.append(f"console: {message.text} ({message.page.url if message.page else ''})")

    def request(self, request: Request) -> None:
        if not request.url.startswith((self.origin, *LOCAL)):
            self.faults.append(f"request: {request.url}")


def hostile_row(index: int, reward: float) -> dict[str, Any]:
    tokens = ["Now", HOSTILE, " <b>bold</b>", "\n", " end"]
    return {
        "step": 1,
        "group_id": f"g{index // 4}",
        "data_source": "hostile",
        "prompt": f"What is {index // 4}? {HOSTILE}",
        "response": "".join(tokens),
        "response_tokens": tokens,
        "response_ids": list(range(len(tokens))),
        "response_mask": [1] * len(tokens),
        "reward": reward,
        "token_level_rewards": [0.0] * (len(tokens) - 1) + [reward],
    }


def write_hostile(path: Path) -> Path:
    rows = [{"_header": {"schema": "rollout-batch", "version": 1, "run": "hostile"}}]
    rows += [hostile_row(i, reward) for i, reward in enumerate((1.0, 0.5, 0.0, 0.25, 0.0, 1.0, 1.0, 0.0))]
    path.write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
    return path


def write(path: Path, run: str, rows: Iterable[dict[str, Any]]) -> Path:
    path.write_bytes(b"".join(lines({**story.HEADER, "run": run}, rows)))
    return path


def upload(client: httpx.Client, path: Path) -> dict[str, Any]:
    """Upload a file and wait until its batch and its default estimates are there."""
    answer = client.post(
        "/api/v1/uploads", params={"filename": path.name, "wait": 60}, content=path.read_bytes()
    )
    assert answer.status_code in (200, 201), answer.text
    receipt: dict[str, Any] = answer.json()
    batch = receipt["batches"][0]["id"]
    wait_for(lambda: estimated(client, batch), "the default estimates are there")
    return receipt


def estimated(client: httpx.Client, batch: str) -> bool:
    items = client.get(f"/api/v1/batches/{batch}/estimates").json()["items"]
    return bool(items) and all(item["state"] == "succeeded" for item in items)


@pytest.fixture(scope="package")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("browser")
    tasks = write(folder / "two-tasks.jsonl", "two-tasks", small.two_tasks())
    step = write(folder / "step_22.jsonl", "example", story.rows(22))
    with serving(folder / "data", {}) as server, server.client as client:
        first, second = upload(client, tasks), upload(client, step)
        batch = client.get(f"/api/v1/batches/{second['batches'][0]['id']}").json()
        run = client.get(f"/api/v1/runs/{batch['run']}").json()["id"]
        hostile = write_hostile(folder / "hostile.jsonl")
        yield Site(server.url, first["batches"][0]["id"], batch["id"], run, first["id"], hostile)


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    assert path, "The browser tests need Chromium: apt-get install chromium"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def watch(site: Site) -> Watch:
    return Watch(site.url)


@pytest.fixture
def visit(browser: Browser, site: Site, watch: Watch) -> Iterator[Callable[..., Page]]:
    """Opens a page in a context of its own; at the end none of them may have done what it must not."""
    with ExitStack() as stack:

        def open_page(path: str = "/", **options: Any) -> Page:
            context = stack.enter_context(browser.new_context(base_url=site.url, **options))
            watch.over(context)
            page = context.new_page()
            page.goto(path)
            return page

        yield open_page
    assert watch.faults == []


def settle(page: Page) -> list[str]:
    """Scrolls every chart into view and waits until it is drawn; the charts' states."""
    charts = page.locator("figure.chart")
    for number in range(charts.count()):
        charts.nth(number).scroll_into_view_if_needed()
    page.wait_for_function(DRAWN)
    states: list[str] = charts.evaluate_all("(all) => all.map((e) => e.dataset.state)")
    return states


def overflow(page: Page) -> int:
    """By how many pixels the page is wider than its window."""
    return int(page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth"))


def brightness(page: Page) -> float:
    """Of the page's background, from 0 (black) to 255."""
    colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
    parts = [float(part) for part in colour[colour.index("(") + 1 : -1].split(",")[:3]]
    return sum(parts) / 3
