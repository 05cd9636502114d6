"""A reproducer is small, has no texts unless asked for, and shows the same finding when it is loaded back."""

import json
from typing import Any

import pytest

from app import reconciling, reproducer, shrinking
from app.errors import NotFound, Unprocessable
from app.findings import FINDINGS
from app.findings.finding import SEVERITIES
from app.minimise import Spent, shortest_head, smallest
from app.recorded_rows import cut, rows_of
from app.replay import lines
from app.uploads import receipt
from app.workflows import perform
from storage import analyses, batches
from storage.database import read
from storage.models import Batch
from tests.findings.examples import MIXED, examples, rewarded
from tests.working import Place

EXAMPLES = examples()


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches are reconciled as they come in, however busy the machine is."""
    monkeypatch.setattr(reconciling, "MOST_SECONDS", 600.0)


def uploaded(place: Place, content: bytes, filename: str = "rollouts.jsonl") -> Batch:
    """The batch of a file, without the estimates that follow."""
    upload_id, _ = place.upload(content, filename)
    ((kind, id, revision),) = [job for job in place.queued() if job[0] == "ingest"]
    perform(place.context(), kind, id, revision, place.commit)
    with read(place.engine) as session:
        said = receipt(session, upload_id)
        assert said["state"] == "succeeded", said
        batch = batches.get(session, said["batches"][0]["id"])
        assert batch is not None
        session.expunge(batch)
        return batch


def reproduced(place: Place, batch: Batch, code: str, texts: bool = False) -> shrinking.Reproducer:
    with read(place.engine) as session:
        return reproducer.of_finding(session, place.settings, batch, code, texts)


def parsed(made: shrinking.Reproducer) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    header, *rows = (json.loads(line) for line in made.content.splitlines())
    return header["_header"], rows


def test_every_finding_has_an_example() -> None:
    assert set(EXAMPLES) == set(FINDINGS)


@pytest.mark.parametrize("code", FINDINGS)
def test_loading_it_back_shows_the_same_finding(
    place: Place, code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shrinking, "MOST_SECONDS", 3.0)
    header, rows = EXAMPLES[code]
    batch = uploaded(place, lines(header, rows))
    assert code in batch.codes
    made = reproduced(place, batch, code)
    said, kept = parsed(made)
    assert said["reproducer"] == {"of": code, "rollouts": len(kept), "tokens": made.tokens}
    assert 1 <= len(kept) <= len(rows) and b'"messages"' not in made.content
    for row in rows:
        for text in (row.get("prompt"), row.get("response")):
            assert not isinstance(text, str) or len(text) < 6 or text.encode() not in made.content
    again = uploaded(place, made.content, made.name)
    assert code in again.codes
    first, second = (next(f for f in each.findings if f["code"] == code) for each in (batch, again))
    assert SEVERITIES.index(second["severity"]) <= SEVERITIES.index(first["severity"])
    if code != "recorded_advantages_disagree":
        assert reproducer.proof_of(second) == reproducer.proof_of(first)


@pytest.mark.parametrize(
    ("code", "rollouts", "tokens"),
    # Of at most four rollouts it would not be said that half of them are critical.
    [("zero_variance_groups", 2, 2), ("nonfinite_values", 1, 1), ("truncated_rollouts", 5, 5)],
)
def test_it_is_as_small_as_it_can_be(place: Place, code: str, rollouts: int, tokens: int) -> None:
    rows = rewarded(MIXED)
    for row in rows[4:8]:
        row["reward"] = 0.5
    for row in rows[8:]:
        row["finish_reason"] = "length"
    rows[-1]["values"] = [0.5, None, 0.25, 0.5]
    header = {"eos_token_id": 3, "adv_estimator": "grpo"}
    content = lines(header, rows).replace(b"null", b"NaN")
    made = reproduced(place, uploaded(place, content), code)
    assert (made.rollouts, made.tokens) == (rollouts, tokens)
    assert made.tries <= shrinking.MOST_TRIES


def test_texts_come_only_when_asked_for(place: Place) -> None:
    header, rows = EXAMPLES["zero_variance_groups"]
    batch = uploaded(place, lines(header, rows))
    _, bare = parsed(reproduced(place, batch, "zero_variance_groups"))
    _, full = parsed(reproduced(place, batch, "zero_variance_groups", texts=True))
    assert {row["prompt"] for row in full} <= {row["prompt"] for row in rows}
    assert {row["prompt"] for row in bare} == {"prompt 0"}
    assert [row["reward"] for row in bare] == [row["reward"] for row in full]


def test_rows_come_back_as_they_were_recorded(place: Place) -> None:
    rows = rewarded([[1.0, 0.0]], data_source="math", rank=2, rollout_id=lambda i: f"r{i}")
    rows[0] |= {"values": [0.1, None, 0.25, float("inf")], "extra": {"more": [1, 2]}}
    rows[1] |= {"reward": None, "_nonfinite": {"reward": "NaN"}, "prompt": "another"}
    batch = uploaded(place, lines({}, rows))
    with read(place.engine) as session:
        found = rows_of(session, batch, range(2))
    assert found[0]["values"] == [0.1, None, 0.25, None]
    assert found[0]["_nonfinite"] == {"values": {"3": "Infinity"}}
    assert found[1]["_nonfinite"] == {"reward": "NaN"} and "reward" not in found[1]
    for mine, theirs in zip(rows, found, strict=True):
        for name in ("group_id", "prompt", "response", "response_ids", "response_mask", "rank", "extra"):
            assert theirs.get(name) == mine.get(name), name


def test_tokens_are_cut_in_every_array_alike() -> None:
    row = {
        "response_ids": [1, 2, 3], "response_tokens": ["a", "b", "c"], "response": "abc",
        "values": [0.1, None, 0.3], "_nonfinite": {"values": {"1": "NaN"}, "reward": "NaN"},
        "extra": {"values_full": [1.0, 2.0, 3.0, 4.0], "other": [1, 2]}, "prompt": ["kept"],
    }  # fmt: skip
    made = cut(row, [1, 2, 7])
    assert made["response_ids"] == [2, 3] and made["response"] == "bc" and made["values"] == [None, 0.3]
    assert made["_nonfinite"] == {"values": {"0": "NaN"}, "reward": "NaN"}
    assert made["extra"] == {"values_full": [2.0, 3.0, 4.0], "other": [1, 2]} and made["prompt"] == ["kept"]
    assert cut(row, range(3)) is row


def test_a_verdict_is_reproduced_too(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shrinking, "MOST_SECONDS", 5.0)
    header, rows = EXAMPLES["recorded_advantages_disagree"]
    batch = uploaded(place, lines(header, rows))
    with read(place.engine) as session:
        (analysis,) = analyses.of_batch(session, batch.id)
        made = reproducer.of_analysis(session, place.settings, batch, analysis)
        assert analysis.result is not None
        verdict = analysis.result["verdict"]
    assert made.rollouts <= len(rows) and parsed(made)[0]["reproducer"]["of"] == verdict
    again = uploaded(place, made.content, made.name)
    with read(place.engine) as session:
        (other,) = analyses.of_batch(session, again.id)
        assert other.result is not None and other.result["verdict"] == verdict
        assert other.result["candidates"][0]["mistake"] == analysis.result["candidates"][0]["mistake"]


def test_what_has_no_reproducer(place: Place) -> None:
    header, rows = EXAMPLES["sign_flips"]
    batch = uploaded(place, lines(header, rows))
    with pytest.raises(NotFound, match="has no finding 'empty_response'"):
        reproduced(place, batch, "empty_response")
    alone = [row | {"response": "yes"} for row in rewarded([[1.0, 0.0]])]
    stale = uploaded(place, lines({"run": "stale"}, alone))
    said = {"code": "sign_flips", "severity": "info", "evidence": {}, "rollouts": [0], "groups": []}
    stale.findings = [said]
    with pytest.raises(Unprocessable, match="Share the upload itself"):
        reproduced(place, stale, "sign_flips")


def test_the_smallest_part_is_found_by_halves() -> None:
    looked = []

    def shows(some: list[int]) -> bool:
        looked.append(some)
        return {3, 60} <= set(some)

    assert smallest(range(100), shows) == [3, 60]
    assert len(looked) < 100
    assert smallest([1], shows) == [1]


def test_a_search_that_runs_out_keeps_what_it_has() -> None:
    left = [3]

    def shows(some: list[int]) -> bool:
        if not left[0]:
            raise Spent
        left[0] -= 1
        return 7 in some

    assert smallest(range(16), shows) == [4, 5, 6, 7]
    assert shortest_head(8, lambda n: n >= 5) == 5
    left[0] = 1
    assert shortest_head(8, lambda n: shows([7] * (n >= 4))) == 4
