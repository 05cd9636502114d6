"""Sliders: turned, answered, compared with what stood there before, and turned back."""

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Site, overflow, settle

pytestmark = pytest.mark.browser

TURN = """(input, value) => {
  input.value = value;
  input.dispatchEvent(new Event("input", { bubbles: true }));
}"""


def keys(page: Page, batch: str) -> set[str]:
    listed = page.request.get(f"/api/v1/batches/{batch}/estimates?limit=200").json()["items"]
    return {item["id"] for item in listed}


def test_a_slider_is_turned_and_turned_back(visit: Callable[..., Page], site: Site) -> None:
    page = visit(f"/batches/{site.example}/compare", viewport={"width": 400, "height": 900})
    page.locator(".picker summary").click()
    page.locator(".offers").get_by_text("gae/verl").first.click()
    page.wait_for_url("**estimate=**")
    before = keys(page, site.example)
    first = page.url.partition("estimate=")[2].partition("&")[0]
    assert overflow(page) <= 0
    status = page.locator(".what-if [role=status]")
    for value in ("0.9", "0.6", "0.3"):
        page.locator("input[name='params.lam']").evaluate(TURN, value)
    expect(status).to_contain_text("answered in")
    expect(page.locator("#compared .picker-detail")).to_contain_text("λ 0.3")
    assert f"against={first}" in page.url
    assert "drawn" in settle(page)
    expect(page.locator("#pair thead")).to_contain_text("gae/verl λ 0.3")
    # The stops in between leave nothing behind.
    assert len(keys(page, site.example) - before) == 1
    page.get_by_role("button", name="Back to where it was").click()
    expect(page.locator("#compared .picker-detail")).to_contain_text("λ 0.95")
    expect(status).to_contain_text("answered in")
    assert keys(page, site.example) == before
    # Without whitening there is no ddof to choose.
    page.locator("select[name='whitening.scope']").select_option("none")
    expect(page.locator("select[name='whitening.ddof']")).to_be_hidden()
    expect(page.locator("#compared .picker-detail")).to_contain_text("not whitened")


def test_a_reload_shows_the_same(visit: Callable[..., Page], site: Site) -> None:
    page = visit(f"/batches/{site.example}/compare")
    page.locator("input[name='params.epsilon']").evaluate(TURN, "-2")
    expect(page.locator("#compared .picker-detail")).to_contain_text("0.01")
    expect(page.locator(".what-if [role=status]")).to_contain_text("answered in")
    page.reload()
    expect(page.locator("input[name='params.epsilon']")).to_have_value("-2")
    expect(page.locator("#compared .picker-detail")).to_contain_text("0.01")
    assert "against=" in page.url
