"""Large uploads from the browser: they survive a reload, a lost server, a pause, and take no other file for
the one that was begun."""

import random
from collections.abc import Callable
from pathlib import Path

import httpx
import orjson
import pytest
from playwright.sync_api import Browser, CDPSession, Page, expect

from tests.acceptance.processes import serving
from tests.browser.conftest import Site, Watch, overflow

pytestmark = pytest.mark.browser

MIB = 1 << 20
#: So slow that a test can act in the middle: bytes a second.
SLOW = 4_000_000
SENT_OF = "Number(document.querySelector('.drop-list progress')?.value ?? 0)"


def large(path: Path, seed: int = 0) -> Path:
    """A file of 24 rows and a mebibyte of text in each."""
    numbers = random.Random(seed)
    rows = [
        {"step": 1, "group_id": f"g{n // 4}", "prompt": f"p{n // 4}", "reward": n % 4 / 4,
         "response": numbers.randbytes(MIB // 2).hex()}
        for n in range(24)
    ]  # fmt: skip
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
    return path


def throttle(page: Page, bytes_per_second: int) -> CDPSession:
    """-1: as fast as it goes."""
    session = page.context.new_cdp_session(page)
    session.send("Network.enable")
    limits = {"offline": False, "latency": 0, "downloadThroughput": -1, "uploadThroughput": bytes_per_second}
    session.send("Network.emulateNetworkConditions", limits)
    return session


def offsets(page: Page) -> list[int]:
    """Where each piece begins that the page sends from now on."""
    found: list[int] = []
    page.on(
        "request",
        lambda request: (
            found.append(int(request.headers["upload-offset"])) if request.method == "PATCH" else None
        ),
    )
    return found


def again(page: Page, file: Path) -> None:
    page.locator(".drop-list input[type=file]").set_input_files(file)


def test_a_reload_in_the_middle_goes_on_with_the_same_file_and_no_other(
    visit: Callable[..., Page], site: Site, tmp_path: Path
) -> None:
    file = large(tmp_path / "large.jsonl")
    page = visit("/")
    session = throttle(page, SLOW)
    page.locator("#files").set_input_files(file)
    page.wait_for_function(f"() => {SENT_OF} > 0.3")
    expect(page.get_by_role("progressbar")).to_have_accessible_name("Progress of large.jsonl")
    card = page.locator(".drop-list li")
    card.get_by_role("button", name="pause").click()
    expect(card).to_contain_text("Paused at")
    second = page.context.new_page()
    second.goto("/")
    expect(second.locator(".drop-list li")).to_contain_text("Another tab of this browser is sending it.")
    second.close()
    card.get_by_role("button", name="continue").click()
    page.wait_for_function(f"() => {SENT_OF} > 0.5")
    page.reload()
    expect(card).to_contain_text("of large.jsonl are here. Choose the same file to go on")
    here = round(page.evaluate(SENT_OF) * file.stat().st_size)
    assert 0.3 * file.stat().st_size < here < file.stat().st_size
    again(page, large(tmp_path / "other.jsonl", 1))
    expect(card).to_contain_text("large.jsonl was begun, and this is other.jsonl.")
    again(page, large(tmp_path / "elsewhere" / "large.jsonl", 1))
    expect(card).to_contain_text("These are other bytes than those that are here already")

    session.send("Network.disable")
    sent = offsets(page)
    again(page, file)
    page.wait_for_url("**/uploads/*", timeout=60_000)
    assert sent[0] == here, "only the rest is sent"
    with httpx.Client(base_url=site.url, timeout=60) as client:
        plain = client.post("/api/v1/uploads", params={"filename": file.name}, content=file.read_bytes())
        assert plain.status_code == 200 and plain.json()["id"] == page.url.rpartition("/")[2]
        assert plain.json()["counts"] == {"rows": 24, "accepted": 24, "rejected": 0}
    page.goto("/")
    expect(page.locator(".drop-list li")).to_have_count(0)


def open_page(browser: Browser, url: str, watch: Watch) -> Page:
    context = browser.new_context(base_url=url, viewport={"width": 400, "height": 900})
    watch.over(context)
    page = context.new_page()
    page.goto("/")
    return page


def test_a_server_that_goes_away_and_comes_back(browser: Browser, tmp_path: Path) -> None:
    data_dir, numbers = tmp_path / "data", random.Random(1)
    file, second = tmp_path / "one.bin", tmp_path / "two.bin"
    file.write_bytes(numbers.randbytes(20 * MIB))
    second.write_bytes(numbers.randbytes(MIB))
    with serving(data_dir, {}, "web") as server:
        watch = Watch(server.url, allowed=["Failed to load resource", "net::ERR"])
        page = open_page(browser, server.url, watch)
        card = page.locator(".drop-list li").first
        session = throttle(page, SLOW)
        page.locator("#files").set_input_files(file)
        page.wait_for_function(f"() => {SENT_OF} > 0.5")
        server.kill()
        server.ended()
        expect(card).to_contain_text("what was sent is kept")
        assert overflow(page) == 0
    session.send("Network.disable")
    sent = offsets(page)
    with (
        serving(data_dir, {}, "web", port=int(server.url.rpartition(":")[2])) as server,
        server.client as client,
    ):
        receipt = card.get_by_role("link", name="receipt")
        expect(receipt).to_be_visible(timeout=40_000)
        assert sent and min(sent) > 0.2 * file.stat().st_size
        plain = client.post("/api/v1/uploads", params={"filename": file.name}, content=file.read_bytes())
        assert receipt.get_attribute("href") == f"/uploads/{plain.json()['id']}"

        page.locator("#files").set_input_files([file, second])
        receipt = card.get_by_role("link", name="receipt")
        expect(receipt).to_be_visible()
        form = [("file", (path.name, path.read_bytes())) for path in (file, second)]
        plain = client.post("/api/v1/uploads", files=form)
        assert receipt.get_attribute("href") == f"/uploads/{plain.json()['id']}"

        throttle(page, SLOW)
        page.locator("#files").set_input_files(file)
        card.get_by_role("button", name="stop").click()
        expect(card).to_contain_text("nothing of it is kept")
        assert page.evaluate("localStorage.getItem('vantage-transfers')") == "[]"
        page.context.close()
    assert watch.faults == []
