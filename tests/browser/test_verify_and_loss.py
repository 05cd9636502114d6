"""What a person does on the pages that verify, weigh and compare, and to find a convention."""

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Site, overflow, settle

pytestmark = pytest.mark.browser


def test_a_verdict_and_a_candidate_that_is_drawn(visit: Callable[..., Page], site: Site) -> None:
    page = visit(f"/batches/{site.example}/verify", viewport={"width": 400, "height": 800})
    if page.get_by_role("button", name="Find out").count():
        page.get_by_role("button", name="Find out").click()
    verdict = page.locator(".verdict h2")
    expect(verdict).not_to_be_empty()
    assert overflow(page) <= 0
    page.locator(".candidates").get_by_role("button", name="draw").first.click()
    page.wait_for_url("**/verify?**estimate=**")
    expect(page.locator(".live")).to_have_count(0)
    assert settle(page) == ["drawn"]
    expect(page.locator("#recorded_vs_recomputed figcaption")).to_contain_text("against what is recorded")


def test_the_mode_of_the_loss_is_chosen_in_the_table(visit: Callable[..., Page], site: Site) -> None:
    page = visit(f"/batches/{site.example}/loss")
    page.get_by_role("link", name="seq-mean-token-mean", exact=True).click()
    page.wait_for_url("**/loss?**mode=seq-mean-token-mean")
    expect(page.locator("tr[aria-current] th")).to_contain_text("seq-mean-token-mean")
    assert settle(page) == ["drawn"] * 4
    expect(page.locator("#loss_length figcaption")).to_contain_text("seq-mean-token-mean (verl)")


def test_a_convention_is_found_by_words(visit: Callable[..., Page], site: Site) -> None:
    page = visit(f"/batches/{site.example}")
    choice = page.locator("#convention")
    everything = choice.locator("option").count()
    page.locator("#find-convention").fill("trl group")
    expect(choice).to_have_value("grpo/trl-group")
    assert 0 < choice.locator("option").count() < everything
    notes = page.locator("form.request .notes li:visible")
    expect(notes).to_have_count(1)
    expect(notes).to_contain_text("grpo/trl-group")
    page.locator("#find-convention").fill("")
    assert choice.locator("option").count() == everything
