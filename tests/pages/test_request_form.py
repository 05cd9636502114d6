"""The form that asks for an estimate, and the forms that do without scripts."""

import re

import pytest

from app.errors import Unprocessable
from app.pages.request_form import body_of
from estimators import CONVENTIONS, Request
from tests.pages.conftest import Site


def test_a_form_becomes_the_apis_request() -> None:
    body = body_of(
        [
            ("convention", "gae/verl"),
            ("params.gae.gamma", "0.99"),
            ("params.gae.lam", " "),
            ("params.grpo.epsilon", "5"),  # of another estimator
            ("whitening.scope", "data_source"),
            ("whitening.shift_mean", "false"),
            ("precision", "float32"),
            ("grouping", "stride:4"),
        ]
    )
    assert body == {
        "convention": "gae/verl",
        "params": {"gamma": 0.99},
        "whitening": {"scope": "data_source", "shift_mean": False},
        "precision": "float32",
        "grouping": "stride:4",
    }
    assert Request.from_dict(body).params.gamma == 0.99


def test_a_form_without_a_convention_is_refused() -> None:
    with pytest.raises(Unprocessable, match="Choose a convention"):
        body_of([("convention", "nothing/known")])


def test_what_the_page_offers_can_be_sent_back(site: Site) -> None:
    batch = site.batches["two-tasks"]
    form = site.data(f"/batches/{batch}.json")["form"]
    assert {choice["name"] for choice in form["conventions"]} == set(CONVENTIONS)
    plain = site.data(f"/batches/{site.batches['plain']}.json")["form"]
    lacking = {choice["name"]: choice["lacks"] for choice in plain["conventions"]}
    assert lacking["gae/verl"] and not lacking["grpo/verl"]
    for estimator in form["estimators"]:
        name = next(c["name"] for c in form["conventions"] if c["estimator"] == estimator["name"])
        for setting in estimator["settings"]:
            value = setting["choices"][0] if setting["choices"] else setting["default"]
            if value != "null":
                field = f"params.{estimator['name']}.{setting['name']}"
                Request.from_dict(body_of([("convention", name), (field, value)]))


def test_conventions_stand_in_one_group_per_estimator(site: Site) -> None:
    html = site.page(f"/batches/{site.batches['plain']}")
    groups = re.findall(r'<optgroup label="([^"]+)">(.*?)</optgroup>', html, re.S)
    assert [name for name, _ in groups] == list(dict.fromkeys(c.estimator for c in CONVENTIONS.values()))
    offered = [re.findall(r'<option value="([^"]+)"[^>]*?( disabled)?>', body) for _, body in groups]
    assert {name for each in offered for name, _ in each} == set(CONVENTIONS)
    for each in offered:  # what this batch allows comes first
        assert sorted(each, key=lambda option: bool(option[1])) == each
    notes = re.findall(r'<li data-convention="[^"]+"( hidden)?>', html)
    assert len(notes) == len(CONVENTIONS) and notes.count("") == 1


def test_an_estimate_is_asked_for_by_a_plain_form(fresh: Site) -> None:
    upload, _ = fresh.place.upload(
        b"".join(b'{"prompt": "p%d", "response": "r", "reward": %d}\n' % (i // 2, i % 2) for i in range(8))
    )
    fresh.place.work()
    batch = fresh.data(f"/api/v1/uploads/{upload}")["batches"][0]["id"]
    answer = fresh.client.post(
        f"/batches/{batch}/estimates", data={"convention": "dr_grpo/verl"}, follow_redirects=False
    )
    assert answer.status_code == 303 and answer.headers["location"].startswith(f"/batches/{batch}?estimate=")
    waiting = fresh.page(answer.headers["location"])
    assert 'data-follow="/api/v1/estimates/' in waiting and "this page shows grpo/verl" in waiting
    fresh.place.work()
    done = fresh.page(answer.headers["location"])
    assert "data-follow" not in done and "<b>dr_grpo/verl</b>" in done


def test_cancelling_by_a_plain_form(fresh: Site) -> None:
    upload, _ = fresh.place.upload(b'{"prompt": "p", "response": "r", "reward": 1}\n')
    assert 'data-follow="/api/v1/uploads/' in fresh.page(f"/uploads/{upload}")
    answer = fresh.client.post(f"/uploads/{upload}/cancel", follow_redirects=False)
    assert answer.status_code == 303 and answer.headers["location"] == f"/uploads/{upload}"
    assert "cancelled" in fresh.page(f"/uploads/{upload}")


def test_a_file_is_uploaded_by_a_plain_form(fresh: Site) -> None:
    row = b'{"prompt": "p", "response": "r", "reward": 1}\n'
    answer = fresh.client.post(
        "/uploads", files={"file": ("a.jsonl", row)}, data={"run": "from a form"}, follow_redirects=False
    )
    assert answer.status_code == 303
    fresh.place.work()
    assert "from a form" in fresh.page(answer.headers["location"])
