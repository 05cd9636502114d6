"""The verify page: before it is asked, while it is answered, with a verdict, with nothing to verify."""

import orjson

from app.pages.verify import CandidateLine, contradiction, headline_of
from storage.analyses import of_batch
from storage.database import read
from tests.builders import make_batch
from tests.figures.batches import RECORDED
from tests.pages.conftest import Site

#: GRPO with the sample std of each group + 1e-6: rewards 0 1 1 0 0 0 0 1 in groups of four.
REWARDS = [[0.0, 1.0, 1.0, 0.0], [0.0, 0.0, 0.0, 1.0]]
ADVANTAGES = [-0.8660239, 0.8660239, 0.8660239, -0.8660239, -0.499999, -0.499999, -0.499999, 1.499997]


def unasked(site: Site) -> str:
    """A batch with recorded advantages that nobody has asked about."""
    fields = RECORDED | {"advantage": "recorded", "response_mask": "recorded"}
    batch = make_batch(
        site.place.engine, REWARDS, columns={"advantage": ADVANTAGES}, lengths=[3] * 8, fields=fields
    )
    return batch.id


def test_from_the_button_to_the_verdict(fresh: Site) -> None:
    batch = unasked(fresh)
    address = f"/batches/{batch}/verify"
    assert "Not asked yet" in fresh.page(address)
    answer = fresh.client.post(f"/batches/{batch}/reconcile", data={"convention": ""}, follow_redirects=False)
    assert answer.status_code == 303 and answer.headers["location"].startswith(f"{address}?analysis=")
    assert 'data-follow="/api/v1/analyses/' in fresh.page(answer.headers["location"])
    fresh.place.work()
    html = fresh.page(address)
    said = fresh.data(f"{address}.json")["answer"]
    assert said["verdict"] in ("match", "ambiguous") and said["headline"] in html
    matched = [line["convention"] for line in said["candidates"] if line["matched"]]
    assert "grpo/verl" in matched and said["candidates"][0]["matched"]
    assert f"/api/v1/analyses/{said['id']}/reproducer?texts=false" in html
    # Drawing a candidate computes it, and the page shows it.
    drawn = fresh.client.post(f"/analyses/{said['id']}/candidates/0", follow_redirects=False)
    assert drawn.status_code == 303
    fresh.place.work()
    chart = fresh.data(f"{address}.json?{drawn.headers['location'].split('?')[1].split('#')[0]}")["chart"]
    figure = fresh.data(chart["src"])
    assert figure["layout"]["meta"]["deviating"] == 0
    assert fresh.client.post(f"/analyses/{said['id']}/candidates/999").status_code == 404


def test_an_answer_that_nothing_explains_is_a_warning(fresh: Site) -> None:
    shared = {"prompt": "p", "response": "r", "response_mask": [1, 1]}
    rows = [
        {**shared, "group_id": f"g{i // 4}", "reward": float(i % 3), "advantage": 0.1 * i * i - 1.0}
        for i in range(12)
    ]
    upload, _ = fresh.place.upload(b"".join(orjson.dumps(row) + b"\n" for row in rows), "odd.jsonl")
    fresh.place.work()
    batch = fresh.data(f"/api/v1/uploads/{upload}")["batches"][0]["id"]
    said = fresh.data(f"/batches/{batch}/verify.json")["answer"]
    assert said["verdict"] == "no_match" and said["sign"] == "warning"
    assert "No known convention or mistake gives these numbers" in fresh.page(f"/batches/{batch}/verify")


def test_nothing_recorded_is_a_sentence(site: Site) -> None:
    html = site.page(f"/batches/{site.batches['plain']}/verify")
    assert (
        "No advantages are recorded" in html and "<code>advantages</code> and <code>advantage</code>" in html
    )
    assert "reconcile" not in html


def test_one_of_another_batch_is_refused(fresh: Site) -> None:
    first, second = unasked(fresh), unasked(fresh)
    fresh.client.post(f"/batches/{first}/reconcile", data={})
    with read(fresh.place.engine) as session:
        (analysis,) = of_batch(session, first)
    fresh.page(f"/batches/{second}/verify?analysis={analysis.id}", 404)
    fresh.client.post(f"/analyses/{analysis.id}/cancel")
    assert "The analysis was cancelled" in fresh.page(f"/batches/{first}/verify")


def line(**changes: object) -> CandidateLine:
    plain = {
        "place": 0, "convention": "gae/verl", "mistake": None, "matched": True, "whitening": "own",
        "max_abs_error": 0.0, "p99_abs_error": 0.0, "rollouts_matched": 4, "rollouts": 4, "explanation": "",
        "same_as": (), "failing": (), "contradicts": (), "proved": False,
    }  # fmt: skip
    return CandidateLine(**{**plain, **changes})  # type: ignore[arg-type] # fields by name


def test_the_headline_says_what_is_not_as_configured() -> None:
    other = contradiction({"name": "gamma", "configured": 1.0, "recorded": 0.9, "said": True})
    assert other == "γ 0.9 where the file says 1"
    sign, words = headline_of("match", [line(contradicts=(other,))], "gae/verl")
    assert (sign, words) == ("warning", "These are gae/verl, but with γ 0.9 where the file says 1")
    assert headline_of("match", [line()], "gae/verl") == ("ok", "These are gae/verl, as configured")


def test_only_a_proved_mistake_is_critical() -> None:
    assert headline_of("match", [line(mistake="offset", proved=True)], None)[0] == "critical"
    sign, words = headline_of("match", [line(mistake="offset")], None)
    assert sign == "info" and "not known" in words
