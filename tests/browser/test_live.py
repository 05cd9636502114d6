"""An open page follows: a new step shows without a reload, and the page says when it cannot follow."""

from collections.abc import Callable

import httpx
from playwright.sync_api import Page, expect

from app.example import lines, story
from tests.browser.conftest import Site

RUN = "followed"


def send(site: Site, step: int) -> str:
    """The run's id, once the step can be seen."""
    body = b"".join(lines({**story.HEADER, "run": RUN}, story.rows(step)))
    with httpx.Client(base_url=f"{site.url}/api/v1", timeout=120) as client:
        answer = client.post("/uploads", params={"filename": f"{step}.jsonl", "wait": 60}, content=body)
        assert answer.status_code == 201, answer.text
        run: str = client.get(f"/runs/{RUN}").json()["id"]
        return run


def test_an_open_run_gets_its_next_step(visit: Callable[..., Page], site: Site) -> None:
    page = visit(f"/runs/{send(site, 15)}")
    live = page.locator("[data-live]")
    expect(live).to_have_text("live")
    page.evaluate("window.sameDocument = true")
    rows = page.locator("table.steps tbody tr")
    expect(rows).to_have_count(1)
    chart = page.locator("figure.chart").first
    chart.scroll_into_view_if_needed()
    page.wait_for_function("() => document.querySelector('figure.chart').dataset.state === 'drawn'")
    points = "document.querySelector('figure.chart .plot').data.reduce((n, t) => n + (t.x?.length ?? 0), 0)"
    before = page.evaluate(points)
    send(site, 16)
    expect(rows).to_have_count(2)
    expect(rows.first).to_contain_text("step 16")
    expect(page.locator(".title-row")).to_contain_text("2 batches")
    page.wait_for_function(f"() => {points} > {before}")
    assert page.evaluate("window.sameDocument"), "the page was not loaded again"


def test_the_first_page_gets_new_runs(visit: Callable[..., Page], site: Site) -> None:
    page = visit("/")
    expect(page.locator("[data-live]")).to_have_text("live")
    page.evaluate("window.sameDocument = true")
    send(site, 17)
    expect(page.locator("[data-part=latest]")).to_contain_text(f"{RUN} · step 17")
    assert page.evaluate("window.sameDocument")


def test_a_page_says_when_it_does_not_follow(visit: Callable[..., Page], site: Site) -> None:
    run = send(site, 18)
    page = visit(f"/runs/{run}")
    expect(page.locator("[data-live]")).to_have_text("live")
    httpx.delete(f"{site.url}/api/v1/runs/{run}", timeout=60).raise_for_status()
    expect(page.locator("[data-live]")).to_have_text("deleted")
