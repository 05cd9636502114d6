"""The page on which a person says which column is what, with names that mean harm."""

import csv
import io
import re

import pytest

from tests.pages.conftest import HOSTILE, Site

NAMES = ["question", HOSTILE, '"><b>x', "=cmd()", "mark", "a" * 300]


def table(names: list[str], rows: int = 6) -> bytes:
    text = io.StringIO(newline="")
    writer = csv.writer(text, delimiter=";")
    writer.writerow(names)
    for row in range(rows):
        writer.writerow([f"q{row // 2}", HOSTILE, f"text {row}", "=1+1", "1,5", "x"][: len(names)])
    return text.getvalue().encode()


@pytest.fixture
def uploaded(fresh: Site) -> tuple[Site, str]:
    upload, _ = fresh.place.upload(table([*NAMES[:5]]), "table.csv", run="r")
    fresh.place.work()
    return fresh, upload


def chosen(html: str, field: str) -> str:
    found = re.search(rf'name="column\.{field}">(.*?)</select>', html, re.S)
    assert found is not None
    selected = re.search(r'<option value="([^"]*)" selected>', found[1])
    return selected[1] if selected else ""


def test_the_page_asks_what_is_open_and_shows_five_rows(uploaded: tuple[Site, str]) -> None:
    site, upload = uploaded
    assert f'href="/uploads/{upload}/columns"' in site.page(f"/uploads/{upload}")
    html = site.page(f"/uploads/{upload}/columns")
    assert "Which column is the response?" in html
    assert chosen(html, "prompt") == "question" and chosen(html, "response") == ""
    preview = html.split('id="preview"')[1]
    assert preview.count("<tr>") == 6
    assert "<script>alert" not in html and "<b>x" not in html
    seen = re.sub(r'\svalue="[^"]*"', "", html)
    assert "\u202e" not in seen and "\u200b" not in seen
    assert site.data(f"/uploads/{upload}/columns.json")["table"]["columns"][0]["name"] == "question"


def test_what_is_chosen_is_read_and_offered_the_next_time(uploaded: tuple[Site, str]) -> None:
    site, upload = uploaded
    form = {
        "column.response": '"><b>x', "column.reward": "mark", "column.prompt": "question",
        "decimal": "comma", "group_by": "stride", "stride": "3",
    }  # fmt: skip
    answer = site.client.post(f"/uploads/{upload}/columns", data=form, follow_redirects=False)
    assert answer.status_code == 303
    site.place.work()
    again = answer.headers["location"].removeprefix("/uploads/")
    receipt = site.client.get(f"/api/v1/uploads/{again}").json()
    assert receipt["state"] == "succeeded", receipt
    assert (receipt["batches"][0]["rollouts"], receipt["batches"][0]["groups"]) == (6, 2)
    html = site.page(f"/uploads/{again}/columns")
    assert "remembered of an earlier file" in html
    assert chosen(html, "reward") == "mark"
    assert '<option value="stride" selected>' in html and 'value="3"' in html
    next_one, _ = site.place.upload(table(NAMES[:5], 9), "next.csv", run="r")
    site.place.work()
    batch = site.client.get(f"/api/v1/uploads/{next_one}").json()["batches"][0]
    assert (batch["rollouts"], batch["groups"]) == (9, 3)


def test_a_field_that_is_guessed_can_be_taken_away(fresh: Site) -> None:
    upload, _ = fresh.place.upload(b"prompt,response,score\np,a,1\np,b,2\n", "t.csv", run="r")
    fresh.place.work()
    form = {"column.response": "response", "column.reward": "", "column.prompt": "prompt", "replace": "1"}
    answer = fresh.client.post(f"/uploads/{upload}/columns", data=form, follow_redirects=False)
    fresh.place.work()
    again = answer.headers["location"].removeprefix("/uploads/")
    assert fresh.client.get(f"/api/v1/uploads/{again}").json()["request"]["columns"]["reward"] == ""
    batches = fresh.client.get("/api/v1/batches").json()["items"]
    assert len(batches) == 1
    assert fresh.client.get(f"/api/v1/batches/{batches[0]['id']}").json()["fields"]["reward"] == "absent"


def test_a_refused_choice_leaves_everything_as_it_is(uploaded: tuple[Site, str]) -> None:
    site, upload = uploaded
    answer = site.client.post(f"/uploads/{upload}/columns", data={"group_by": "stride", "stride": "x"})
    assert answer.status_code == 400 and "stride:N" in answer.text
    answer = site.client.post(f"/uploads/{upload}/columns", data={"column.nothing": "mark"})
    assert answer.status_code == 422 and "no such field" in answer.text
    assert site.client.get("/api/v1/jobs").json()["total"] == 1


def test_what_is_no_table_says_so(site: Site) -> None:
    html = site.page(f"/uploads/{site.uploads['plain']}/columns")
    assert "rows of JSON" in html


def test_the_upload_form_offers_tokenizers(fresh: Site) -> None:
    content = b'{"version": "1.0", "model": {"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "a"}}'
    assert fresh.client.put("/api/v1/tokenizers/tiny", content=content).status_code == 201
    assert '<option value="tiny">tiny</option>' in fresh.page("/")
