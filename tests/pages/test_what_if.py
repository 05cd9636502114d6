"""The sliders of the page of comparisons."""

import json

import pytest

from app.figures.chosen import Chosen
from app.pages.what_if import RANGES, slider, what_if
from estimators import Request
from storage.models import Batch, Estimate
from tests.pages.conftest import Site


def chosen(**request: object) -> Chosen:
    spelt = Request.from_dict(request).to_dict()
    made = Estimate(id="made", estimator=spelt["estimator"], convention=spelt["convention"], request=spelt)
    return Chosen("made (recomputed)", made)


def test_only_what_the_estimator_has_can_be_turned() -> None:
    batch = Batch(fields={"group_id": "recorded"})
    gae = what_if(batch, chosen(convention="gae/verl"), None)
    grpo = what_if(batch, chosen(convention="grpo/verl"), "recorded")
    assert gae is not None and grpo is not None
    assert [each.name for each in gae.sliders] == ["params.gamma", "params.lam", "whitening.eps"]
    assert [each.name for each in grpo.sliders] == ["params.epsilon", "whitening.eps"]
    assert (gae.ghost, grpo.ghost) == ("made", "recorded")
    assert "data_source" not in dict(gae.choices[0].options) and gae.choices[0].value == "batch"
    assert what_if(batch, Chosen("recorded advantages", None, "advantages"), None) is None


def test_asked_for_unchanged_it_is_the_same_request() -> None:
    for request in ({"convention": "gae/verl", "params": {"lam": 0.5}}, {"estimator": "grpo"}):
        found = what_if(Batch(fields={}), chosen(**request), None)
        assert found is not None
        assert Request.from_dict(json.loads(found.request)) == Request.from_dict(request)


def test_an_axis_reaches_what_was_asked_for() -> None:
    assert slider("params.gamma", 0.5).low == 0.5 and slider("params.gamma", 0.95).low == 0.9
    assert slider("params.epsilon", 1e-6).place == pytest.approx(-6.0)
    assert slider("params.epsilon", 100.0).high == 2.0
    assert slider("params.epsilon", 0.0).place == RANGES["params.epsilon"].low


def test_the_page_has_sliders_for_what_was_computed(site: Site) -> None:
    batch = site.batches["two-tasks"]
    html = site.page(f"/batches/{batch}/compare")
    assert 'type="range"' in html and "js/what_if.js" in html
    found = site.data(f"/batches/{batch}/compare.json")
    body = json.loads(found["what_if"]["request"])
    answer = site.client.post(f"/api/v1/batches/{batch}/estimates", json=body)
    assert answer.status_code == 200 and answer.json()["id"] == found["picker"]["used"]["key"]
