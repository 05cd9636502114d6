"""What holds for every endpoint: ETags, compression, exact and non-finite numbers, keys."""

import math

import numpy as np
import orjson
import pytest
import zstandard

from app.figures import FIGURES
from app.responses import accepts_encoding, dumps, etag, numbers
from storage.arrays import MISSING
from tests.api.conftest import Service, refused
from tests.api.rows import ROWS, jsonl

IMMUTABLE = [
    "/batches/{batch}",
    "/batches/{batch}/findings",
    "/batches/{batch}/rollouts",
    "/batches/{batch}/rollouts?sort=-reward&limit=3",
    "/batches/{batch}/rollouts/0",
    "/batches/{batch}/rollouts/0/tracks/values",
    "/batches/{batch}/groups",
    "/batches/{batch}/groups/code%20one",
    "/batches/{batch}/figures/group_rewards",
    "/batches/{batch}/figures/token_heatmap?estimate={estimate}",
    "/estimates/{estimate}",
    "/estimates/{estimate}/advantages?rollout=0",
    "/estimates/{estimate}/advantages?format=npz",
]


@pytest.fixture
def ids(filled: Service, batch: str) -> dict[str, str]:
    estimate = filled.get(f"/batches/{batch}/estimates")["items"][0]["id"]
    return {"batch": batch, "estimate": estimate}


@pytest.mark.parametrize("path", IMMUTABLE)
def test_immutable_answers_are_not_sent_twice(filled: Service, ids: dict[str, str], path: str) -> None:
    path = "/api/v1" + path.format(**ids)
    first = filled.client.get(path)
    assert first.status_code == 200, first.text
    tag = first.headers["etag"]
    for known in (tag, tag.removeprefix("W/"), f'"other", {tag}', "*"):
        again = filled.client.get(path, headers={"If-None-Match": known})
        assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
    assert filled.client.get(path, headers={"If-None-Match": '"other"'}).status_code == 200


def test_other_views_have_other_tags(filled: Service, ids: dict[str, str]) -> None:
    seen = [filled.client.get("/api/v1" + path.format(**ids)).headers["etag"] for path in IMMUTABLE]
    assert len(set(seen)) == len(seen)
    octets = {"Accept": "application/octet-stream"}
    track = f"/api/v1/batches/{ids['batch']}/rollouts/0/tracks/values"
    assert filled.client.get(track, headers=octets).headers["etag"] not in seen


def test_an_etag_depends_on_each_part() -> None:
    assert etag("a", "bc") != etag("ab", "c")
    assert etag("a", None) != etag("a")


def test_big_bodies_are_sent_in_zstd_or_gzip_as_the_client_likes(filled: Service, batch: str) -> None:
    path = f"/api/v1/batches/{batch}/figures/token_heatmap"
    plain = filled.client.get(path, headers={"Accept-Encoding": "identity"})
    assert "content-encoding" not in plain.headers
    packed = filled.client.get(path, headers={"Accept-Encoding": "gzip"})
    assert packed.headers["content-encoding"] == "gzip"
    assert packed.json() == plain.json()


def test_a_big_body_in_zstd(service: Service) -> None:
    rows = [dict(row, response=f"{'long text ' * 3000}{row['response']}") for row in ROWS]
    batch = service.upload(jsonl(rows))["batches"][0]["id"]
    path = f"/api/v1/batches/{batch}/rollouts/0"
    plain = service.client.get(path, headers={"Accept-Encoding": "identity"})
    with service.client.stream("GET", path, headers={"Accept-Encoding": "gzip, zstd"}) as answer:
        raw = b"".join(answer.iter_raw())
    assert answer.headers["content-encoding"] == "zstd"
    assert answer.headers["vary"] == "Accept-Encoding"
    assert zstandard.ZstdDecompressor().decompress(raw) == plain.content
    assert len(raw) < len(plain.content) / 20


@pytest.mark.parametrize(
    ("header", "accepted"),
    [
        ("zstd", True),
        ("gzip, zstd;q=0.5", True),
        ("ZSTD", True),
        ("gzip", False),
        ("zstd;q=0", False),
        ("zstd; q=0.0", False),
        ("", False),
        ("notzstd", False),
    ],
)
def test_what_a_client_accepts(header: str, accepted: bool) -> None:
    assert accepts_encoding(header, "zstd") is accepted


def test_numbers_are_exact_and_odd_ones_are_named() -> None:
    values = np.array([np.float32(0.1), np.nan, np.inf, -np.inf, MISSING], np.float32)
    shown, names = numbers(values)
    assert orjson.loads(dumps(shown)) == [float(np.float32(0.1)), None, None, None, None]
    assert names == {"1": "NaN", "2": "Infinity", "3": "-Infinity"}


def test_lone_surrogates_and_large_integers_are_shown() -> None:
    content = {"text": "half \ud83d", "numbers": np.array([1.5, np.nan]), "big": 2**70, "nan": math.nan}
    assert (
        dumps(content)
        == b'{"text":"half \\ud83d","numbers":[1.5,null],"big":1180591620717411303424,"nan":null}'
    )


def test_odd_numbers_of_a_file_are_null_and_named(service: Service) -> None:
    odd = dict(
        ROWS[0], reward=math.inf, values=[math.nan, -math.inf, None], reward_components={"a": math.nan}
    )
    batch = service.upload(jsonl([odd, *ROWS[1:]]))["batches"][0]["id"]
    shown = service.get(f"/batches/{batch}/rollouts/0")
    assert shown["reward"] is None
    assert shown["values"] == [None, None, None]
    assert shown["nonfinite"]["reward"] == "Infinity"
    assert shown["nonfinite"]["values"] == {"0": "NaN", "1": "-Infinity"}
    listed = service.get(f"/batches/{batch}/rollouts")["items"]
    assert listed[0]["nonfinite"] == {"reward": "Infinity"} and listed[1]["nonfinite"] == {}
    track = service.get(f"/batches/{batch}/rollouts/0/tracks/values", params={"start": 1})
    assert (track["values"], track["nonfinite"]) == ([None, None], {"0": "-Infinity"})
    group = service.get(f"/batches/{batch}/groups/{odd['group_id']}")
    assert group["nonfinite"] == {"0": "Infinity"} and group["scored"] == 3


def test_hostile_text_comes_back_as_it_was_and_breaks_no_page(service: Service) -> None:
    """With half a character, as a token may end in one: legal in JSON, in no encoding and in no address."""
    text = "</script><img onerror=x>\u202e \x00 half \ud83d"
    odd = {"response": text, "prompt": text, "data_source": text, "finish_reason": text}
    rows = [dict(row, **odd, response_tokens=[text] * len(row["response_ids"])) for row in ROWS]
    for row in rows:
        row["response"] = text * len(row["response_ids"])
    batch = service.upload(jsonl(rows))["batches"][0]["id"]
    shown = service.get(f"/batches/{batch}/rollouts/1")
    assert (shown["response"], shown["prompt"], shown["data_source"]) == (text, text, text)
    assert service.get(f"/batches/{batch}/groups")["items"][0]["excerpt"] == text
    panels = [{"rollout": 1, "batch": batch}, {"figure": "group_rewards", "batch": batch}]
    board = service.post("/dashboards", json={"title": "t", "panels": panels}).json()["id"]
    for path in ("", "/groups/0", "/rollouts/1", "/whitening"):
        for beside in ("", ".json"):
            assert service.client.get(f"/batches/{batch}{path}{beside}").status_code == 200, path + beside
    for frozen in (False, True):
        made = service.post(f"/dashboards/{board}/shares", json={"snapshot": frozen}).json()
        for beside in ("", ".json"):
            assert service.client.get(f"/s/{made['token']}{beside}").status_code == 200
    for name in FIGURES:
        where = "/runs/rows" if FIGURES[name].scope == "run" else f"/batches/{batch}"
        service.get(f"{where}/figures/{name}")


# Keys


def test_a_key_is_answered_once(service: Service) -> None:
    key = {"Idempotency-Key": "make-it"}
    body = {"title": "mine"}
    first = service.post("/dashboards", json=body, headers=key)
    again = service.post("/dashboards", json=body, headers=key)
    assert (first.status_code, again.status_code) == (201, 201)
    assert again.json() == first.json()
    assert again.headers["idempotent-replayed"] == "true"
    assert again.headers["location"] == first.headers["location"]
    assert service.get("/dashboards")["total"] == 1
    refused(service.post("/dashboards", json={"title": "other"}, headers=key), 422, "another request")
    refused(service.post("/estimates/x/cancel", headers=key), 422, "another request")


def test_a_key_of_a_refused_request_is_free_again(service: Service) -> None:
    key = {"Idempotency-Key": "try"}
    refused(service.post("/dashboards", json={"title": ""}, headers=key), 422, "title")
    assert service.post("/dashboards", json={"title": "now"}, headers=key).status_code == 201


def test_a_secret_is_not_kept_for_a_second_answer(service: Service) -> None:
    board = service.post("/dashboards", json={"title": "mine"}).json()["id"]
    key = {"Idempotency-Key": "link"}
    made = service.post(f"/dashboards/{board}/shares", json={}, headers=key).json()
    refused(service.post(f"/dashboards/{board}/shares", json={}, headers=key), 409, "shown only once")
    assert service.get(f"/dashboards/{board}/shares")["total"] == 1
    kept = (service.place.settings.data_dir / "vantage.db").read_bytes()
    kept += (service.place.settings.data_dir / "vantage.db-wal").read_bytes()
    assert made["token"].encode() not in kept


def test_a_keyed_estimate_is_followed_up(service: Service) -> None:
    batch = service.upload()["batches"][0]["id"]
    path, body, key = f"/batches/{batch}/estimates", {"convention": "dr_grpo/trl"}, {"Idempotency-Key": "e"}
    assert service.post(path, json=body, headers=key).status_code == 202
    service.work()
    again = service.post(path, json=body, headers=key, params={"wait": 1})
    assert (again.status_code, again.json()["state"]) == (200, "succeeded")


@pytest.mark.parametrize("key", ["", "x" * 256, "tab\there"])
def test_keys_that_cannot_be(refusing: Service, key: str) -> None:
    refused(
        refusing.post("/dashboards", json={"title": "x"}, headers={"Idempotency-Key": key}), 400, "printable"
    )


# Errors
