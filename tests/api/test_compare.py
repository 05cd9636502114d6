"""One estimate against another by REST, on both kinds of database."""

from typing import Any

import numpy as np
import pytest

from tests.api.conftest import Service, refused
from tests.api.rows import ROWS, jsonl


def means(service: Service, estimate: dict[str, Any]) -> list[float | None]:
    """The mean advantage of each rollout, from the advantages themselves."""
    found = []
    for index in range(len(ROWS)):
        body = service.get(f"/estimates/{estimate['id']}/advantages", params={"rollout": index})
        kept = [a for a, m in zip(body["advantages"], body["response_mask"], strict=True) if m]
        found.append(float(np.mean(kept)) if kept else None)
    return found


def tokens(service: Service, estimate: dict[str, Any]) -> np.ndarray[Any, Any]:
    found: list[float] = []
    for index in range(len(ROWS)):
        body = service.get(f"/estimates/{estimate['id']}/advantages", params={"rollout": index})
        found += [a for a, m in zip(body["advantages"], body["response_mask"], strict=True) if m]
    return np.array(found)


def test_two_estimates_are_compared_over_rollouts_and_tokens(filled: Service, batch: str) -> None:
    one = filled.estimate(batch, convention="grpo/verl")
    other = filled.estimate(batch, convention="gae/verl", params={"lam": 0.5})
    body = filled.get(f"/estimates/{one['id']}/compare/{other['id']}")
    a, b = np.array(means(filled, one)), np.array(means(filled, other))
    items = body["rollouts"]["items"]
    assert [item["index"] for item in items] == list(range(len(ROWS))) and body["rollouts"]["next"] is None
    assert [item["a"] for item in items] == pytest.approx(list(a))
    assert [item["b"] for item in items] == pytest.approx(list(b))
    assert [item["sign_change"] for item in items] == [bool(x * y < 0) for x, y in zip(a, b, strict=True)]
    assert body["max_abs_difference"] == pytest.approx(float(np.abs(a - b).max()))
    assert body["sign_agreement"] == pytest.approx(float((np.sign(a) == np.sign(b)).mean()))
    matrix = np.array(body["sign_matrix"])
    assert matrix.sum() == len(ROWS) and np.trace(matrix) == (np.sign(a) == np.sign(b)).sum()
    assert -1 <= body["spearman"] <= 1 and (body["batch"], body["count"]) == (batch, len(ROWS))
    x, y = tokens(filled, one), tokens(filled, other)
    assert body["tokens"]["count"] == x.size == body["tokens"]["sampled"]
    assert body["tokens"]["max_abs_difference"] == pytest.approx(float(np.abs(x - y).max()))
    assert body["tokens"]["p99_abs_difference"] == pytest.approx(float(np.quantile(np.abs(x - y), 0.99)))
    assert (body["a"]["convention"], body["b"]["per_token"]) == ("grpo/verl", True)


def test_an_estimate_agrees_with_itself(filled: Service, batch: str) -> None:
    one = filled.estimate(batch, convention="grpo/verl")
    body = filled.get(f"/estimates/{one['id']}/compare/{one['id']}")
    assert (body["spearman"], body["sign_agreement"], body["max_abs_difference"]) == (1.0, 1.0, 0.0)
    assert body["tokens"] is None and not any(item["sign_change"] for item in body["rollouts"]["items"])


def test_rollouts_come_in_pages_the_furthest_apart_first(filled: Service, batch: str) -> None:
    one = filled.estimate(batch, convention="grpo/verl")
    other = filled.estimate(batch, convention="dr_grpo/verl")
    path = f"/estimates/{one['id']}/compare/{other['id']}"
    items: list[dict[str, Any]] = []
    cursor = None
    while True:
        asked = {"limit": 5, "sort": "-difference", **({"cursor": cursor} if cursor else {})}
        page = filled.get(path, params=asked)["rollouts"]
        items, cursor = items + page["items"], page["next"]
        assert page["total"] == len(ROWS)
        if cursor is None:
            break
    assert sorted(item["index"] for item in items) == list(range(len(ROWS)))
    apart = [abs(item["a"] - item["b"]) for item in items]
    assert apart == sorted(apart, reverse=True)
    refused(filled.client.get(f"/api/v1{path}", params={"cursor": "x"}), 400, "cursor")


def test_the_recorded_advantages_can_be_one_side(service: Service) -> None:
    rows = [{**row, "advantages": [0.5] * len(row["response_mask"])} for row in ROWS]
    batch = service.upload(jsonl(rows))["batches"][0]["id"]
    estimate = service.estimate(batch, convention="grpo/verl")
    body = service.get(f"/estimates/{estimate['id']}/compare/recorded")
    assert body["b"]["id"] == "recorded" and {item["b"] for item in body["rollouts"]["items"]} == {0.5}
    assert body["spearman"] is None and body["sign_matrix"][1][2] == 4  # the group of equal rewards


def test_what_cannot_be_compared(service: Service) -> None:
    first = service.upload()["batches"][0]["id"]
    second = service.upload(jsonl(ROWS[:4]), run="other")["batches"][0]["id"]
    one, other = (service.estimate(batch, convention="grpo/verl")["id"] for batch in (first, second))
    refused(service.client.get(f"/api/v1/estimates/{one}/compare/{other}"), 422, "different batches", first)
    refused(service.client.get(f"/api/v1/estimates/{one}/compare/nothing"), 404, "no estimate")
    refused(service.client.get(f"/api/v1/estimates/{one}/compare/recorded"), 422, "no recorded advantages")
    waiting = service.post(f"/batches/{first}/estimates", json={"convention": "dr_grpo/verl"}).json()["id"]
    refused(service.client.get(f"/api/v1/estimates/{one}/compare/{waiting}"), 409, "queued")


def test_an_estimate_that_was_asked_for_is_deleted(filled: Service, batch: str) -> None:
    asked = {"convention": "gae/verl", "params": {"lam": 0.123}}
    made = filled.estimate(batch, **asked)
    address = f"/api/v1/estimates/{made['id']}"
    assert filled.client.get(f"{address}/advantages", params={"rollout": 0}).status_code == 200
    assert filled.client.delete(address).status_code == 204
    refused(filled.client.get(address), 404, "no estimate")
    refused(filled.client.delete(address), 404, "no estimate")
    listed = [item["id"] for item in filled.get(f"/batches/{batch}/estimates")["items"]]
    assert made["id"] not in listed and listed
    # Asked for again it is computed again, with the same numbers.
    again = filled.estimate(batch, **asked)
    assert again["id"] != made["id"] and again["summary"] == made["summary"]
    filled.client.delete(f"/api/v1/estimates/{again['id']}")


def test_what_others_look_at_is_not_deleted(filled: Service, batch: str) -> None:
    own = next(item for item in filled.get(f"/batches/{batch}/estimates")["items"] if item["default"])
    refused(filled.client.delete(f"/api/v1/estimates/{own['id']}"), 409, "Vantage's own")
    made = filled.estimate(batch, convention="gae/verl", params={"lam": 0.321})
    board = filled.client.post("/api/v1/dashboards", json={"title": "what we saw"}).json()
    panel = {"figure": "token_heatmap", "batch": batch, "estimate": made["id"]}
    answer = filled.client.patch(f"/api/v1/dashboards/{board['id']}", json={"panels": [panel]})
    assert answer.status_code == 200, answer.text
    refused(filled.client.delete(f"/api/v1/estimates/{made['id']}"), 409, "'what we saw'")
    filled.client.delete(f"/api/v1/dashboards/{board['id']}")
    assert filled.client.delete(f"/api/v1/estimates/{made['id']}").status_code == 204
