"""Findings about single rollouts: numbers that are none, copies, misplaced reward, nothing to train on."""

from collections.abc import Sequence

import pytest
from sqlalchemy import Engine

from storage.codec import MISSING
from tests.findings.build import case, from_case, run_findings

MIXED: Sequence[Sequence[float | None]] = [[1.0, 0.0, 1.0, 0.0]] * 6


def test_missing_rewards(sqlite_engine: Engine) -> None:
    said = from_case(sqlite_engine, case("25"))
    missing = said["nonfinite_values"]
    assert missing["severity"] == "warning" and "6 of 10" in missing["title"]
    assert missing["evidence"]["unscored_rollouts"] == 6
    assert (missing["evidence"]["groups_with_one_score"], missing["evidence"]["groups_with_no_score"]) == (
        1,
        1,
    )
    assert said["singleton_groups"]["groups"] == ["b", "c"]


def test_batch_without_any_reward_is_not_missing_some(sqlite_engine: Engine) -> None:
    assert run_findings(sqlite_engine, [[None, None], [None, None]]) == {}


def test_nonfinite_rewards_and_tokens(sqlite_engine: Engine) -> None:
    nan, inf = float("nan"), float("inf")
    arrays = {
        "response_mask": [[1, 1, 0], [1, 1], [1, 1], [1, 0]],
        "values": [[0.1, 0.2, nan], [0.1, inf], [MISSING, 0.3], [0.1, MISSING]],
        "old_log_probs": [[-1.0, -1.0, MISSING], [-1.0, -2.0], [-1.0, -1.0], [-1.0, -0.5]],
    }
    columns = {"reward_nonfinite": [None, None, None, "Infinity"]}
    said = run_findings(sqlite_engine, [[1.0, 0.0, 1.0, None]], arrays=arrays, columns=columns)[
        "nonfinite_values"
    ]
    assert said["severity"] == "critical"
    assert (
        said["evidence"]["nonfinite_rewards"] == {"Infinity": 1}
        and said["evidence"]["unscored_rollouts"] == 0
    )
    # A null on a masked token is no loss; NaN there is, as NaN × 0 is NaN.
    assert said["evidence"]["tokens"] == {"values": {"NaN": 1, "Infinity": 1, "null": 1}}
    assert said["rollouts"] == [0, 1, 2, 3]


def test_nonfinite_numbers_of_a_rollout(sqlite_engine: Engine) -> None:
    components = [{"accuracy": 1.0, "style": float("nan")}, {"accuracy": 0.0, "style": 0.5}]
    columns = {"reward_components": components, "extra": [None, {"_nonfinite": {"advantage": "Infinity"}}]}
    said = run_findings(sqlite_engine, [[1.0, 0.0]], columns=columns)["nonfinite_values"]
    assert said["evidence"]["numbers"] == {"style": {"NaN": 1}, "advantage": {"Infinity": 1}}
    assert said["severity"] == "critical" and said["rollouts"] == [0, 1]


def test_duplicates_need_substance(sqlite_engine: Engine) -> None:
    long = "The mill grinds the corn and the corn becomes bread."
    responses = [long, long, "yes", "yes"]
    digests = ["a", "a", "b", "b"]
    said = run_findings(
        sqlite_engine, [[1.0, 1.0, 0.0, 0.0]], columns={"response": responses, "digest": digests}
    )["duplicate_rollouts"]
    assert said["rollouts"] == [0, 1] and said["evidence"]["copies"] == 1 and said["severity"] == "critical"


def test_batch_written_twice(sqlite_engine: Engine) -> None:
    twice: Sequence[Sequence[float | None]] = [[1.0, 0.0, 1.0, 0.0]] * 4
    columns = {
        "response": ["y", "n", "y", "n"] * 4,
        "digest": [f"{g}{i % 2}" for g in range(4) for i in range(4)],
    }
    said = run_findings(sqlite_engine, twice, columns=columns)["duplicate_rollouts"]
    assert said["title"] == "Every rollout is there 2 times." and said["evidence"]["copies"] == 8


def test_reward_on_masked_token(sqlite_engine: Engine) -> None:
    said = from_case(sqlite_engine, case("03"))["reward_on_masked_token"]
    assert said["severity"] == "critical" and said["rollouts"] == [0]
    assert said["evidence"]["masked_abs_reward"] == 1.0 and said["evidence"]["trainable_abs_reward"] == 0.0
    assert said["evidence"]["rollouts_with_masked_reward_only"] == 1


def test_empty_response_that_votes(sqlite_engine: Engine) -> None:
    said = from_case(sqlite_engine, case("10"))
    assert set(said) == {"empty_response", "fully_masked_rollout_votes", "reward_past_end"}
    assert said["empty_response"]["evidence"]["highest_reward"] == 4.0
    # The reward was written at index −1: the last pad.
    assert said["reward_past_end"]["evidence"]["example"] == {
        "index": 0, "reward_at": 2, "last_trainable": -1, "reward": 4.0,
    }  # fmt: skip
    votes = said["fully_masked_rollout_votes"]
    # The group mean is 1 without the empty row and 2 with it.
    assert votes["rollouts"] == [0] and votes["evidence"]["largest_shift_of_group_mean"] == pytest.approx(1.0)
    assert votes["evidence"]["siblings_change_from_no_signal"] == 1


def test_unrecorded_text_is_not_empty(sqlite_engine: Engine) -> None:
    said = run_findings(sqlite_engine, MIXED, lengths=[3] * 24, columns={"response": [""] * 24})
    assert said == {}
