"""Files that do not say all of it: columns are chosen once, ids are decoded with a tokenizer.json."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.conftest import Watch, overflow, settle
from tests.ingest.reading import SAMPLES

pytestmark = pytest.mark.browser

TOKENIZER = SAMPLES / "tokenizer" / "tokenizer.json"


def hand_over(page: Page, file: Path) -> None:
    page.goto("/")
    page.locator("#files").set_input_files(file)


def write_table(path: Path, shift: int) -> Path:
    """Names that no field is called by, and more rows than a preview has."""
    rows = [f"What is {i // 4} + {shift}?,It is {i // 4 + i % 2}.,{i % 2}" for i in range(8)]
    path.write_text("\n".join(["asked,model_said,marked", *rows]) + "\n", encoding="utf-8")
    return path


def field(page: Page, name: str) -> Locator:
    return page.locator(f'select[name="column.{name}"]')


def test_columns_are_chosen_once(visit: Callable[..., Page], tmp_path: Path) -> None:
    page = visit("/", viewport={"width": 400, "height": 800})
    hand_over(page, write_table(tmp_path / f"mine_{'without_a_place_to_break_' * 6}.csv", 1))
    page.wait_for_url("**/uploads/*/columns")
    expect(page.locator(".note.warning")).to_contain_text("Which column is the response?")
    expect(page.locator(".preview tbody tr")).to_have_count(5)
    expect(page.locator(".preview tbody tr").nth(4)).to_contain_text("What is 1 + 1?")
    assert overflow(page) <= 0
    field(page, "response").select_option("model_said")
    field(page, "reward").select_option("marked")
    field(page, "prompt").select_option("asked")
    page.get_by_role("button", name="Read it like this").click()
    page.wait_for_url(lambda url: "/columns" not in url)
    expect(page.get_by_role("link", name="Open the batch")).to_be_visible()
    page.get_by_role("link", name="Open the batch").click()
    expect(page.locator("h1")).to_contain_text("mine")
    expect(page.locator(".wall a[href*='/groups/']")).to_have_count(2)
    hand_over(page, write_table(tmp_path / "later.csv", 2))
    expect(page.locator("h1")).to_have_text("later.csv")
    expect(page.locator("main")).to_contain_text("as remembered")
    page.get_by_role("link", name="choose which column is what").click()
    expect(page.locator("main")).to_contain_text("remembered of an earlier file with these columns")
    expect(field(page, "response")).to_have_value("model_said")
    assert overflow(page) <= 0


@pytest.fixture(scope="module")
def ids_only(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The canonical sample without token texts; its group ids are as long as those of frameworks."""
    lines = (SAMPLES / "canonical" / "batch.jsonl").read_text(encoding="utf-8").splitlines()[1:]
    rows = [
        {key: value for key, value in json.loads(line).items() if key != "response_tokens"} for line in lines
    ]
    path = tmp_path_factory.mktemp("ids") / "ids.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.fixture
def with_tokenizer(visit: Callable[..., Page]) -> Iterator[Page]:
    """The first page after a person has added the tokenizer, which is chosen."""
    page = visit("/")
    page.on("dialog", lambda dialog: dialog.accept("toy"))
    page.locator("summary", has_text="Say what the file does not").click()
    page.locator("#up-tokenizer-file").set_input_files(TOKENIZER)
    expect(page.locator("#up-tokenizer-said")).to_contain_text("toy: 463 entries")
    expect(page.locator("#up-tokenizer")).to_have_value("toy")
    yield page


def test_ids_are_decoded_with_the_chosen_tokenizer(with_tokenizer: Page, ids_only: Path) -> None:
    page = with_tokenizer
    page.locator("#up-run").fill("decoded")
    page.locator("#files").set_input_files(ids_only)
    page.wait_for_url("**/uploads/*")
    expect(page.locator("main")).to_contain_text("token texts of 16 rows decoded with the tokenizer toy")
    page.get_by_role("link", name="Open the batch").click()
    page.locator('a[href*="/groups/"]').first.click()
    page.locator('a[href*="/rollouts/"]:visible').first.click()
    page.wait_for_url("**/rollouts/*")
    tokens = page.locator(".tokens .chunk > span")
    expect(tokens.last).to_have_text("<|im_end|>")
    ids = page.evaluate("async () => (await (await fetch(location.pathname + '.json')).json()).length")
    assert tokens.count() == ids
    page.set_viewport_size({"width": 400, "height": 800})
    assert "failed" not in settle(page)
    assert overflow(page) <= 0


def test_a_tokenizer_of_another_model_changes_nothing(
    with_tokenizer: Page, ids_only: Path, tmp_path: Path
) -> None:
    page = with_tokenizer
    rows = [json.loads(line) for line in ids_only.read_text(encoding="utf-8").splitlines()]
    other = tmp_path / "other.jsonl"
    other.write_text(
        "".join(json.dumps(row | {"response": "What these ids do not say."}) + "\n" for row in rows),
        encoding="utf-8",
    )
    page.locator("#up-run").fill("not decoded")
    page.locator("#files").set_input_files(other)
    page.wait_for_url("**/uploads/*")
    said = "nothing was decoded: the tokenizer toy matched none of the first"
    expect(page.locator("main")).to_contain_text(said)
    expect(page.locator("main")).to_contain_text("Upload the tokenizer.json of the model that was trained")
    page.get_by_role("link", name="Open the batch").click()
    page.locator('a[href*="/groups/"]').first.click()
    page.locator('a[href*="/rollouts/"]:visible').first.click()
    expect(page.locator(".tokens.ids")).to_be_visible()
    expect(page.locator("main")).to_contain_text("What these ids do not say.")


def test_a_file_that_is_no_tokenizer_is_refused_in_place(
    visit: Callable[..., Page], tmp_path: Path, watch: Watch
) -> None:
    watch.allowed.append("422")
    page = visit("/")
    page.on("dialog", lambda dialog: dialog.accept("bad"))
    wrong = tmp_path / "tokenizer.json"
    wrong.write_text("{}", encoding="utf-8")
    page.locator("summary", has_text="Say what the file does not").click()
    page.locator("#up-tokenizer-file").set_input_files(wrong)
    expect(page.locator("#up-tokenizer-said")).to_contain_text('"model"')
    expect(page.locator("#up-tokenizer")).to_have_value("")
    page.set_viewport_size({"width": 400, "height": 800})
    assert overflow(page) <= 0
