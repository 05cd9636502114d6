"""What was uploaded, read back over REST on both kinds of database."""

import numpy as np
import pytest

from tests.api.conftest import Service, refused
from tests.api.rows import EXACT, GROUPS, LENGTHS, REWARDS, ROWS


def test_the_run_and_its_steps(filled: Service) -> None:
    page = filled.get("/runs")
    run = page["items"][0]
    assert (page["total"], page["next"], run["name"]) == (1, None, "rest")
    assert (run["batches"], run["rollouts"], run["first_step"]) == (1, 12, 7)
    by_id, by_name = filled.get(f"/runs/{run['id']}"), filled.get("/runs/rest")
    assert by_id == by_name
    assert by_id["splits"] == ["train"] and by_id["findings"] == []
    step = filled.get("/runs/rest/steps")["items"][0]
    assert (step["step"], step["split"], step["groups"], step["newest"]) == (7, "train", 3, True)
    assert step["reward"]["mean"] == pytest.approx(4.5 / 12)
    assert step["reward"]["quantiles"]["50"] == pytest.approx(0.125)
    assert step["zero_signal_share"] == pytest.approx(1 / 3)
    assert step["findings"]["truncated_rollouts"]


def test_the_batch(filled: Service, batch: str) -> None:
    listed = filled.get("/batches", params={"run": "rest"})["items"][0]
    shown = filled.get(f"/batches/{batch}")
    assert listed.items() <= shown.items()
    assert (shown["rollouts"], shown["groups"], shown["tokens"]) == (12, 3, 3 * sum(LENGTHS))
    assert shown["fields"]["values"] == "recorded"
    assert shown["fields"]["ref_log_probs"] == "absent"
    assert shown["provenance"]["filename"] == "rows.jsonl"


def test_rollouts_are_paged_sorted_and_filtered(filled: Service, batch: str) -> None:
    path = f"/batches/{batch}/rollouts"
    first = filled.get(path, params={"limit": 5})
    assert [row["index"] for row in first["items"]] == [0, 1, 2, 3, 4]
    rest = filled.get(path, params={"limit": 100, "cursor": first["next"]})
    assert [row["index"] for row in rest["items"]] == list(range(5, 12))
    assert (first["total"], rest["next"]) == (12, None)
    best = filled.get(path, params={"sort": "-reward", "limit": 3})["items"]
    assert [row["reward"] for row in best] == [1.0, 1.0, 1.0]
    narrowed = {"filter": ["data_source:math", "reward_min:0.5", "finish_reason:stop"]}
    assert [row["index"] for row in filled.get(path, params=narrowed)["items"]] == [0, 8, 9, 11]
    by_group = filled.get(path, params={"filter": f"group_id:{GROUPS[1]}"})
    assert {row["group_id"] for row in by_group["items"]} == {GROUPS[1]}
    assert filled.get(path, params={"q": "ANSWER 3 TO 2"})["total"] == 1


def test_a_rollout_whole(filled: Service, batch: str) -> None:
    shown = filled.get(f"/batches/{batch}/rollouts/2")
    given = ROWS[2]
    for name, value in given.items():
        if name not in ("step", "split"):
            assert shown[name] == value, name
    assert shown["nonfinite"] == {}
    assert "ref_log_probs" not in shown


def test_numbers_come_back_exactly(filled: Service, batch: str) -> None:
    """The stored array is float32 where that is exact; its shortest text would be another number."""
    values = filled.get(f"/batches/{batch}/rollouts/0")["values"]
    assert values == [EXACT] * 3


def test_a_track_and_a_stretch_of_it(filled: Service, batch: str) -> None:
    path = f"/batches/{batch}/rollouts/2/tracks/old_log_probs"
    track = filled.get(path)
    assert track["values"] == [-0.5, -0.75, -1.0, -1.25]
    assert (track["start"], track["end"], track["length"], track["nonfinite"]) == (0, 4, 4, {})
    assert filled.get(path, params={"start": 1, "end": 3})["values"] == [-0.75, -1.0]
    # Further than the end is the end, and the answer says so.
    assert filled.get(path, params={"start": 3, "end": 900})["end"] == 4
    octets = filled.client.get(
        f"/api/v1{path}", params={"start": 2}, headers={"Accept": "application/octet-stream"}
    )
    assert octets.headers["content-type"] == "application/octet-stream"
    np.testing.assert_array_equal(np.frombuffer(octets.content, "<f4"), [-1.0, -1.25])
    texts = filled.get(f"/batches/{batch}/rollouts/2/tracks/response_tokens", params={"end": 2})
    assert texts["values"] == ["t0", "t1"]


def test_texts_are_not_to_be_had_as_floats(filled: Service, batch: str) -> None:
    path = f"/api/v1/batches/{batch}/rollouts/2/tracks/response_tokens"
    refused(filled.client.get(path, headers={"Accept": "application/octet-stream"}), 406, "json")


def test_groups_and_one_with_slashes_in_its_id(filled: Service, batch: str) -> None:
    page = filled.get(f"/batches/{batch}/groups", params={"sort": "-reward_mean"})
    assert [group["group_id"] for group in page["items"]] == [GROUPS[2], GROUPS[0], GROUPS[1]]
    assert [group["signal"] for group in page["items"]] == ["mixed", "mixed", "fail"]
    group = filled.get(f"/batches/{batch}/groups/{GROUPS[0]}")
    assert filled.get(f"/batches/{batch}/groups/math%2Ftrain%2F0") == group
    assert group["rewards"] == list(REWARDS[0])
    assert group["mean"] == pytest.approx(np.mean(REWARDS[0]))
    assert group["std"] == pytest.approx(np.std(REWARDS[0], ddof=1))
    assert [member["index"] for member in group["members"]] == [0, 1, 2, 3]
    assert (group["size"], group["scored"], group["ddof"], group["origin"]) == (4, 4, 1, "recorded")


def test_findings_worst_first(filled: Service, batch: str) -> None:
    found = filled.get(f"/batches/{batch}/findings")
    # Their values speak for a critic, which learns from groups of equal rewards, too.
    assert [finding["code"] for finding in found] == ["truncated_rollouts"]
    ranks = [("critical", "warning", "info").index(finding["severity"]) for finding in found]
    assert ranks == sorted(ranks)
    assert found[0]["rollouts"] and found[0]["rollouts_total"] == len(found[0]["rollouts"])


@pytest.mark.parametrize(
    ("path", "status", "words"),
    [
        ("/runs/nothing", 404, ["no run", "/api/v1/runs"]),
        ("/runs/nothing/steps", 404, ["no run"]),
        ("/batches/nothing", 404, ["no batch", "/api/v1/batches"]),
        ("/batches/nothing/rollouts", 404, ["no batch"]),
        ("/batches?run=nothing", 404, ["no run"]),
        ("/batches/{batch}/rollouts/12", 404, ["no rollout 12", "12, counted from 0"]),
        ("/batches/{batch}/rollouts/-1", 422, ["index"]),
        ("/batches/{batch}/rollouts/one", 422, ["index"]),
        ("/batches/{batch}/rollouts/99999999999999999999999", 422, ["index"]),
        ("/batches/{batch}/rollouts/0/tracks/ref_log_probs", 404, ["no track", "values"]),
        ("/batches/{batch}/rollouts/0/tracks/response_token_sizes", 404, ["no track"]),
        ("/batches/{batch}/rollouts/0/tracks/values?start=4", 422, ["3 values"]),
        ("/batches/{batch}/rollouts/0/tracks/values?start=-1", 422, ["start"]),
        ("/batches/{batch}/rollouts?limit=0", 422, ["limit"]),
        ("/batches/{batch}/rollouts?limit=1001", 422, ["limit"]),
        ("/batches/{batch}/rollouts?limit=1e9", 422, ["limit"]),
        ("/batches/{batch}/rollouts?sort=colour", 400, ["cannot sort", "reward"]),
        ("/batches/{batch}/rollouts?sort=--reward", 400, ["cannot sort"]),
        ("/batches/{batch}/rollouts?filter=colour:red", 422, ["colour:red", "data_source"]),
        ("/batches/{batch}/rollouts?filter=reward_min", 422, ["reward_min"]),
        ("/batches/{batch}/rollouts?filter=reward_min:high", 422, ["number"]),
        ("/batches/{batch}/rollouts?filter=reward_min:nan", 422, ["number"]),
        ("/batches/{batch}/rollouts?filter=group_no:99999999999999999999", 422, ["range"]),
        ("/batches/{batch}/rollouts?filter=group_no:1&filter=group_no:2", 422, ["twice"]),
        ("/batches/{batch}/rollouts?estimate=nothing", 404, ["no estimate"]),
        ("/batches/{batch}/groups/nothing", 404, ["no group"]),
        ("/batches/{batch}/groups?sort=colour", 400, ["cannot sort"]),
        ("/batches/{batch}/groups?estimate=nothing", 404, ["no estimate"]),
        ("/batches/{batch}/findings/one", 404, ["openapi.json"]),
    ],
)
def test_refusals(filled: Service, batch: str, path: str, status: int, words: list[str]) -> None:
    refused(filled.client.get("/api/v1" + path.format(batch=batch)), status, *words)


#: Cursors of another list, of a text where a number is due, of a number no column holds, and of nothing at
#: all.
CURSORS = [
    "garbage",
    "%%%",
    "WyJyZXdhcmQiLDEsMl0",
    "WyJpbmRleCIsImEiLCJiIl0",
    "WyJpbmRleCIsMWU0MDAsMTBd",
    "WyJpbmRleCIsMTAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMCwxXQ",
    "WyItY3JlYXRlZCIsIngiLDFd",
    "WyJzdGVwcyIsWzFdLDFd",
]


@pytest.mark.parametrize("cursor", CURSORS)
def test_forged_cursors_are_refused_or_lead_to_an_empty_page(
    filled: Service, batch: str, cursor: str
) -> None:
    for path in (
        f"/batches/{batch}/rollouts",
        f"/batches/{batch}/groups",
        "/runs",
        "/batches",
        "/jobs",
        "/runs/rest/steps",
    ):
        answer = filled.client.get(f"/api/v1{path}", params={"cursor": cursor})
        assert answer.status_code in (200, 400), (path, answer.text)
        if answer.status_code == 400:
            refused(answer, 400, "cursor")
