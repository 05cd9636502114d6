"""What the pages say of real batches."""

import json
import re
import struct

import numpy as np
import pytest

from app.templating import Here, with_query
from tests.pages.conftest import HOSTILE, Site, jsonl


def test_an_empty_installation_says_how_to_begin(fresh: Site) -> None:
    html = fresh.page("/")
    assert "Load the example" in html and "/api/v1/uploads?filename=" in html
    assert fresh.data("/index.json")["empty"] is True
    assert "Nothing has been asked for yet" in fresh.page("/jobs")


def test_home_lists_runs_and_batches(site: Site) -> None:
    found = site.data("/index.json")
    assert {run["name"] for run in found["runs"]} == {"two-tasks", "hostile", "plain"}
    assert len(found["latest"]) == 3 and found["empty"] is False
    assert all(upload["state"] == "succeeded" for upload in found["uploads"])


def test_the_wall_tells_groups_without_signal_apart(site: Site) -> None:
    found = site.data(f"/batches/{site.batches['hostile']}.json?sort=group")
    cells = found["wall"]["cells"]
    assert [cell["signal"] for cell in cells] == ["mixed", "mixed"]
    assert cells[0]["rewards"] == [0.0, 1.0, 0.0, 1.0] and cells[0]["passed"] == 2
    assert cells[0]["mean"] == 0.5 and cells[0]["std"] == pytest.approx(0.5773502691896257)
    assert sum(cell["share"] for cell in cells) == pytest.approx(1.0)
    html = site.page(f"/batches/{site.batches['plain']}")
    assert html.count('<li class="cell') == 3


def test_order_of_the_wall_is_in_the_address(site: Site) -> None:
    batch = site.batches["two-tasks"]
    means = [cell["mean"] for cell in site.data(f"/batches/{batch}.json?sort=mean")["wall"]["cells"]]
    assert means == sorted(means, reverse=True)
    assert site.data(f"/batches/{batch}.json?sort=nonsense")["wall"]["sort"] == "weight"


def test_rollouts_are_found_by_text_and_paged(site: Site) -> None:
    batch = site.batches["plain"]
    found = site.data(f"/batches/{batch}.json?q=answer+7")["listing"]
    assert [row["index"] for row in found["rows"]] == [7] and found["total"] == 1
    assert "No rollout matches" in site.page(f"/batches/{batch}?q=zzz")
    sorted_by_reward = f"/batches/{site.batches['two-tasks']}.json?order=-reward"
    first = site.data(sorted_by_reward)["listing"]
    rest = site.data(f"/batches/{site.batches['two-tasks']}.json?order=-reward&cursor={first['next']}")[
        "listing"
    ]
    indices = [row["index"] for row in [*first["rows"], *rest["rows"]]]
    assert len(indices) == len(set(indices)) == 32
    site.page(f"/batches/{batch}?cursor=damaged", status=400)


def test_an_estimate_of_another_batch_is_not_there(site: Site) -> None:
    other = site.data(f"/batches/{site.batches['plain']}.json")["picker"]["used"]["key"]
    for path in ("", "/groups/0", "/rollouts/0", "/whitening"):
        site.page(f"/batches/{site.batches['hostile']}{path}?estimate={other}", status=404)


@pytest.mark.parametrize("path", ["/batches/none", "/runs/none", "/uploads/none", "/nowhere"])
def test_what_is_not_there_is_a_page_that_says_so(site: Site, path: str) -> None:
    html = site.page(path, status=404)
    assert "Back to the runs" in html and "Traceback" not in html


def test_groups_and_rollouts_beyond_the_last_are_not_there(site: Site) -> None:
    batch = site.batches["plain"]
    assert "has 12" in site.page(f"/batches/{batch}/rollouts/99", status=404)
    site.page(f"/batches/{batch}/groups/99", status=404)


def test_the_group_page_leads_to_its_neighbours(site: Site) -> None:
    batch = site.batches["two-tasks"]
    order = [c["group_no"] for c in site.data(f"/batches/{batch}.json?sort=group")["wall"]["cells"]]
    found = site.data(f"/batches/{batch}/groups/{order[1]}.json?sort=group")
    assert (found["before"], found["after"]) == (order[0], order[2])
    members = [member["index"] for member in found["members"]]
    assert found["current"] == members[0] and found["previous"] is None and found["next"] == members[1]
    html = site.page(f"/batches/{batch}/groups/{order[1]}?sort=group&rollout={members[1]}")
    assert {"h", "l", "j", "k", "s"} <= set(re.findall(r'data-key="(\w)"', html))


def test_side_by_side_has_every_sibling(site: Site) -> None:
    html = site.page(f"/batches/{site.batches['hostile']}/groups/0?view=side")
    assert html.count('class="sibling"') == 4 and html.count('class="tokens') == 4


def test_a_rollout_without_tokens_stands_whole_in_one_colour(site: Site) -> None:
    found = site.data(f"/batches/{site.batches['plain']}/rollouts/1.json")
    assert found["shown"]["text"]["kind"] == "text" and "No tokens are recorded" in found["shown"]["why"]
    assert found["lane_unit"] == "characters" and found["lanes"][0]["lane"]["paths"]
    assert any(missing["field"] == "values" and "values" in missing["remedy"] for missing in found["missing"])


def test_tokens_without_a_mask_have_the_colour_of_their_one_advantage(fresh: Site) -> None:
    rows = [
        {"group_id": "g", "prompt": "p", "response": "so it is", "response_ids": [1, 2, 3],
         "response_tokens": ["so", " it", " is"], "reward": float(i % 2)}
        for i in range(4)
    ]  # fmt: skip
    upload = fresh.place.upload(jsonl(rows), "no-mask.jsonl")[0]
    fresh.place.work()
    batch = fresh.data(f"/api/v1/uploads/{upload}")["batches"][0]["id"]
    for index, bucket in ((0, 0), (1, 10)):
        shown = fresh.data(f"/batches/{batch}/rollouts/{index}.json")["shown"]
        assert shown["text"]["buckets"] == [bucket] * 3
        assert (
            shown["why"]
            == "The advantage is one number for the whole response: all of its tokens have its colour."
        )


def test_token_text_has_its_colours_and_the_clip_is_the_steps(site: Site) -> None:
    batch = site.batches["hostile"]
    one, other = (site.data(f"/batches/{batch}/rollouts/{i}.json")["shown"] for i in (0, 1))
    assert one["clip"] == other["clip"] and one["clip_says"] == "p98 of |A| over this step"
    assert one["text"]["kind"] == "tokens" and one["text"]["texts"][1] == HOSTILE
    assert one["text"]["flags"][2] & 1 and one["text"]["buckets"][2] == 11  # masked, so no number
    assert one["text"]["flags"][4] & 4  # a control token of the model
    coloured = site.data(f"/batches/{batch}/rollouts/1.json?color=value")["shown"]
    assert coloured["colour"] == "value" and coloured["clip"] == pytest.approx(0.1)


def test_numbers_for_the_card_come_as_float32(site: Site) -> None:
    batch = site.batches["hostile"]
    answer = site.client.get(f"/batches/{batch}/rollouts/1/numbers?start=2&end=5")
    assert answer.headers["content-type"] == "application/octet-stream"
    (size,) = struct.unpack("<I", answer.content[:4])
    header = json.loads(answer.content[4 : 4 + size])
    begin = 4 + size + (-size) % 4
    values = np.frombuffer(answer.content[begin:], "<f4").reshape(len(header["tracks"]), -1)
    tracks = dict(zip(header["tracks"], values, strict=True))
    assert (header["start"], header["end"]) == (2, 5) and values.shape[1] == 3
    assert tracks["value"] == pytest.approx([0.1] * 3) and np.isnan(tracks["advantage"][0])
    assert site.client.get(f"/batches/{batch}/rollouts/99/numbers?start=0&end=1").status_code == 404


def test_the_sign_matrix_counts_every_rollout_and_lists_a_cell(site: Site) -> None:
    batch = site.batches["two-tasks"]
    found = site.data(f"/batches/{batch}/whitening.json")
    assert sum(cell["count"] for row in found["matrix"] for cell in row) == 32
    flips = [cell for row in found["matrix"] for cell in row if cell["flips"] and cell["count"]]
    assert flips, "one task turns all negative under the batch's mean"
    listed = site.data(f"/batches/{batch}/whitening.json?cell={flips[0]['key']}")["listed"]
    assert len(listed) == flips[0]["count"]
    assert [unit["key"] for unit in found["units"]] == ["response", "token"]
    assert any(row["one_sign"] == "negative" for row in found["tasks"]["rows"])
    site.page(f"/batches/{batch}/whitening?cell=99", status=400)
    assert site.data(f"/batches/{batch}/whitening.json?from=none&to=data_source")["first"] == "none"


def test_the_receipt_checks_what_a_person_would(site: Site) -> None:
    found = site.data(f"/uploads/{site.uploads['plain']}.json")
    kinds = {check["title"]: check["kind"] for check in found["checks"]}
    assert kinds["Every row was read"] == "pass"
    assert kinds["Prompt groups are derived, not recorded"] == "warn"
    assert kinds["No per-token field"] == "info"
    assert found["counted"][0][0] == "warn"
    good = site.data(f"/uploads/{site.uploads['two-tasks']}.json")
    assert any(check["title"] == "Prompt groups are recorded" for check in good["checks"])


def test_a_refused_file_says_why_on_its_receipt(fresh: Site) -> None:
    upload, _ = fresh.place.upload(b"just a note to myself\n", "note.txt")
    fresh.place.work()
    html = fresh.page(f"/uploads/{upload}")
    assert "Nothing was taken" in html and "This upload made no batch" in html


def test_texts_without_rewards_are_missed_aloud(fresh: Site) -> None:
    rows = b'{"prompt": "p", "response": "r"}\n' * 2
    upload, _ = fresh.place.upload(rows, "texts.jsonl")
    fresh.place.work()
    checks = {check["title"]: check for check in fresh.data(f"/uploads/{upload}.json")["checks"]}
    assert checks["No rollout has a reward"]["kind"] == "warn"
    assert "column.reward" in checks["No rollout has a reward"]["detail"]
    assert checks["No per-token field"]["detail"] == "Text per row."


def test_rejected_rows_are_listed_with_row_and_field(fresh: Site) -> None:
    rows = b'{"prompt": "p", "response": "r", "reward": 1}\n' * 2 + b"{broken\n"
    upload, _ = fresh.place.upload(rows, "some.jsonl")
    fresh.place.work()
    found = fresh.data(f"/uploads/{upload}.json")
    failed = [check for check in found["checks"] if check["kind"] == "fail"]
    offenders = [offender for check in failed for offender in check["offenders"]]
    assert [offender["where"] for offender in offenders] == ["row 3"]
    assert offenders[0]["message"].startswith("not a JSON row")


def test_addresses_keep_what_they_are_not_asked_to_change() -> None:
    here = Here("/batches/b?estimate=e&sort=std&q=a%20b", "/batches/b.json", "runs")
    assert here.url(sort=None) == "/batches/b?estimate=e&q=a%20b"
    assert here.url(sort="mean", page=2) == "/batches/b?estimate=e&q=a%20b&sort=mean&page=2"
    assert here.query(estimate=None, sort=None, q=None) == ""
    assert with_query("", task="a&b=c") == "?task=a%26b%3Dc"


def test_a_group_of_many_shows_those_around_the_chosen_one_and_says_so(fresh: Site) -> None:
    rows = [{"group_id": "g", "prompt": "p", "response": f"r{i}", "reward": float(i % 2)} for i in range(600)]
    upload = fresh.place.upload(jsonl(rows), "many.jsonl")[0]
    fresh.place.work()
    batch = fresh.data(f"/api/v1/uploads/{upload}")["batches"][0]["id"]
    first = fresh.data(f"/batches/{batch}/groups/0.json")
    assert [member["index"] for member in first["members"]] == list(range(256))
    assert len(first["lanes"]) == 256 and first["group"]["size"] == 600
    middle = fresh.data(f"/batches/{batch}/groups/0.json?rollout=300")
    assert [lane["index"] for lane in middle["lanes"]] == list(range(172, 428))
    assert (middle["previous"], middle["current"], middle["next"]) == (299, 300, 301)
    last = fresh.data(f"/batches/{batch}/rollouts/599.json")
    assert [lane["index"] for lane in last["lanes"]] == list(range(344, 600))
    assert (last["position"], last["siblings"], last["previous"], last["next"]) == (600, 600, 598, None)
    assert "256 of 600 responses are shown, #0 to #255" in fresh.page(f"/batches/{batch}/groups/0")
    assert "256 of 600 responses are shown, #344 to #599" in fresh.page(f"/batches/{batch}/rollouts/599")
