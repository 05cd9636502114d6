"""What a person does here, from a dropped file to a link that was withdrawn and a file that opens offline."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import HOSTILE, Site, Watch, brightness, settle

pytestmark = pytest.mark.browser

#: Remembers across pages that a progress bar was there, however briefly.
REMEMBER_PROGRESS = """() => new MutationObserver(() => {
  if (document.querySelector(".drop-list progress")) sessionStorage.setItem("progress", "seen");
}).observe(document.querySelector(".drop-list"), { childList: true })"""

AS_DROPPED = """([name, text]) => {
  const carried = new DataTransfer();
  carried.items.add(new File([text], name));
  return carried;
}"""


def drop(page: Page, file: Path) -> None:
    page.evaluate(REMEMBER_PROGRESS)
    carried = page.evaluate_handle(AS_DROPPED, [file.name, file.read_text(encoding="utf-8")])
    for event in ("dragenter", "dragover", "drop"):
        page.dispatch_event("#drop", event, {"dataTransfer": carried})


def test_from_a_dropped_file_to_its_tokens(visit: Callable[..., Page], site: Site) -> None:
    page = visit("/")
    drop(page, site.hostile_file)
    page.wait_for_url("**/uploads/*")
    assert page.evaluate("sessionStorage.getItem('progress')") == "seen"
    expect(page.locator("main")).to_contain_text("hostile.jsonl")
    page.get_by_role("link", name="Open the batch").click()
    expect(page.locator("h1")).to_contain_text("hostile")
    assert "failed" not in settle(page)
    page.locator('a[href*="/groups/0"]').first.click()
    expect(page.locator("h1")).to_contain_text("g0")
    page.locator('a[href*="/rollouts/"]:visible').first.click()
    page.wait_for_url("**/rollouts/*")
    tokens = page.locator(".tokens .chunk > span")
    assert all(
        re.match(r"b(\d|10|x)\b", name)
        for name in tokens.evaluate_all("(all) => all.map((e) => e.className)")
    )
    assert tokens.count() == 5
    text = tokens.nth(1).inner_text()
    assert HOSTILE.split("\u202e")[0] in text and "U+202E" in text and "\u202e" not in page.content()
    assert page.evaluate("window.ran") is None


def test_another_colour_comes_without_another_page(visit: Callable[..., Page], site: Site) -> None:
    address = f"/batches/{site.example}/rollouts/1"
    classes = "(all) => all.map((each) => each.className)"
    page = visit(f"{address}?color=value")
    tokens, region = page.locator(".tokens .chunk > span"), page.locator(".tokens")
    in_value = tokens.evaluate_all(classes)
    page.goto(site.url + address)
    in_advantage = tokens.evaluate_all(classes)
    assert in_value != in_advantage
    page.evaluate("window.still = true")
    page.keyboard.press("v")
    expect(region).to_have_attribute("aria-label", "Tokens of the response, coloured by value")
    assert tokens.evaluate_all(classes) == in_value
    expect(page.locator(".token-top [aria-current]")).to_have_text("value")
    assert page.url.endswith(f"{address}?color=value")
    assert "color=value" in str(page.get_by_role("link", name="after →").get_attribute("href"))
    page.go_back()
    expect(region).to_have_attribute("aria-label", "Tokens of the response, coloured by advantage")
    assert tokens.evaluate_all(classes) == in_advantage and page.url.endswith(address)
    assert "color" not in str(page.get_by_role("link", name="after →").get_attribute("href"))
    assert page.evaluate("window.still")


def test_whitening_shows_the_task_that_turns_negative(visit: Callable[..., Page], site: Site) -> None:
    page = visit(f"/batches/{site.two_tasks}/whitening")
    assert settle(page) and "failed" not in settle(page)
    expect(page.locator("main")).to_contain_text("recall")
    assert page.locator(".js-plotly-plot").count() >= 1


def test_pin_share_and_withdraw(visit: Callable[..., Page], site: Site, watch: Watch) -> None:
    page = visit(f"/batches/{site.two_tasks}/whitening")
    settle(page)
    page.locator("[data-pin]").first.click()
    dialog = page.locator("dialog.pin-dialog")
    dialog.locator("select").select_option("")
    dialog.get_by_label("New dashboard").fill("Look <b>here</b>")
    dialog.get_by_label("Caption").fill("recall is all negative")
    dialog.get_by_role("button", name="Pin").click()
    dialog.get_by_role("link", name="Look <b>here</b>").click()
    expect(page.locator("h1")).to_have_text("Look <b>here</b>")
    assert settle(page) == ["drawn"]
    page.locator("summary", has_text="Share").click()
    page.get_by_role("button", name="Make a link").click()
    expect(page.get_by_label("The link. It is shown this once:")).to_be_visible()
    url = page.locator("[data-share-url]").input_value()
    other = visit(url)
    expect(other.locator("h1")).to_have_text("Look <b>here</b>")
    assert settle(other) == ["drawn"]
    expect(other.locator("main")).to_contain_text("recall is all negative")
    assert other.locator("a, form, button[data-pin]").count() == other.locator(".modebar a").count()
    page.reload()
    page.locator("summary", has_text="Share").click()
    row = page.locator("[data-links] tr[data-link]")
    expect(row).to_contain_text("just now")
    row.get_by_role("button", name="Withdraw").click()
    expect(page.locator("[data-share] [data-status]")).to_contain_text("withdrawn")
    expect(row).to_have_count(0)
    watch.allowed.append("404")
    answer = other.reload()
    assert answer is not None and answer.status == 404
    expect(other.locator("main")).to_contain_text("This link shows nothing.")


def test_pin_to_a_dashboard_that_is_there_and_edit_it(visit: Callable[..., Page], site: Site) -> None:
    page = visit("/dashboards")
    page.get_by_label("Title").fill("To be edited")
    page.get_by_role("button", name="Create").click()
    page.wait_for_url("**/dashboards/*")
    address = page.url
    page.goto(f"/batches/{site.example}/rollouts/60")
    page.locator(".title-row [data-pin]").click()
    dialog = page.locator("dialog.pin-dialog")
    dialog.locator("select").select_option(label="To be edited")
    dialog.get_by_role("button", name="Pin").click()
    expect(dialog.get_by_role("status")).to_contain_text("Pinned to To be edited")
    page.goto(address)
    page.locator("summary", has_text="Edit").click()
    page.get_by_label("Caption").fill("the sixtieth")
    page.get_by_role("button", name="Add a text").click()
    page.get_by_placeholder("Text", exact=True).fill("a text of ours")
    with page.expect_navigation():
        page.get_by_role("button", name="Save").click()
    expect(page.locator(".panel")).to_have_count(2)
    expect(page.locator(".panel").first).to_contain_text("the sixtieth")
    page.locator(".panel-edit").last.get_by_title("Earlier").click()
    with page.expect_navigation():
        page.get_by_role("button", name="Save").click()
    expect(page.locator(".panel").first).to_contain_text("a text of ours")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_exported_file_opens_offline(
    browser: Browser, visit: Callable[..., Page], site: Site, tmp_path: Path, scheme: str
) -> None:
    page = visit("/dashboards")
    made = page.request.post(
        "/api/v1/dashboards",
        data={
            "title": "To keep",
            "panels": [
                {"figure": "token_heatmap", "batch": site.example},
                {"rollout": 60, "batch": site.example},
                {"group": "recall-0", "batch": site.two_tasks},
            ],
        },
    ).json()
    page.goto(f"/dashboards/{made['id']}")
    with page.expect_download() as download:
        page.get_by_role("link", name="Export as a file").click()
    file = tmp_path / download.value.suggested_filename
    download.value.save_as(file)
    assert file.name == "To-keep.html"
    watch = Watch(tmp_path.as_uri())
    context = browser.new_context(offline=True, color_scheme="dark" if scheme == "dark" else "light")
    watch.over(context)
    alone = context.new_page()
    alone.goto(file.as_uri())
    assert settle(alone) == ["drawn"]
    assert alone.locator(".tokens .chunk > span").count() > 20
    expect(alone.locator("main")).to_contain_text("Group recall-0")
    expect(alone.locator(".shared-head")).to_contain_text("exported")
    assert (brightness(alone) < 60) == (scheme == "dark")
    context.close()
    assert watch.faults == []
