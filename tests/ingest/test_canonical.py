"""One canonical row: every field to its type, with a word about each conversion and each thing left out."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from app.ingest import Problem, Rollout
from app.ingest.record import PROMPT_FIELD, TOKEN_FIELDS
from storage.arrays import is_missing
from tests.ingest.reading import read_rows


def one(folder: Path, row: Any, header: dict[str, Any] | None = None) -> tuple[Rollout, list[Problem]]:
    """The only rollout of a file with one row, and what was said."""
    rows = [row] if header is None else [{"_header": header}, row]
    outcome = read_rows(folder, *rows)
    (rollout,) = outcome.rollouts
    return rollout, [problem for problem in outcome.problems if problem.field != "group_id"]


def base(**fields: Any) -> dict[str, Any]:
    return {"response": "r", "group_id": "g"} | fields


@pytest.mark.parametrize("name", sorted(set(TOKEN_FIELDS) - {"response_ids", "response_mask"}))
def test_every_float_field_is_read(name: str, tmp_path: Path) -> None:
    rollout, problems = one(tmp_path, base(**{name: [-1.5, 0.0, -2.25]}))
    assert rollout.tokens[name].tolist() == [-1.5, 0.0, -2.25]
    assert rollout.length == 3
    assert problems == []


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("reward", 0.5), ("advantage", -1.0), ("reward_baseline", 0.25), ("bootstrap_value", 2.0),
        ("step", 3),
        ("sample_index", 1), ("policy_version", 9), ("segment", 0), ("rank", 2), ("micro_batch", 5),
        ("split", "val"), ("sample_id", "s"), ("data_source", "d"), ("ground_truth", "42"),
        ("rollout_id", "x"),
        ("finish_reason", "length"), ("truncated", True), ("terminated", False),
    ],
)  # fmt: skip
def test_every_scalar_field_is_read(name: str, value: Any, tmp_path: Path) -> None:
    rollout, problems = one(tmp_path, base(**{name: value}))
    assert getattr(rollout, name) == value
    assert type(getattr(rollout, name)) is type(value)
    assert problems == []
    assert rollout.extra == {}


def test_null_is_not_recorded_and_an_empty_list_is_no_token(tmp_path: Path) -> None:
    rollout, problems = one(tmp_path, base(response_ids=[], values=None, reward=None))
    assert rollout.tokens["response_ids"].size == 0
    assert "values" not in rollout.tokens
    assert (rollout.length, rollout.reward, problems) == (0, None, [])


def test_null_inside_a_list_is_one_missing_value(tmp_path: Path) -> None:
    rollout, problems = one(tmp_path, base(values=[1.0, None, 2.0]))
    assert is_missing(rollout.tokens["values"]).tolist() == [False, True, False]
    assert problems == []


def test_listed_nonfinite_values_are_put_back(tmp_path: Path) -> None:
    listing = {"rollout_log_probs": {"0": "-Infinity", "2": "NaN"}, "reward": "Infinity"}
    rollout, _ = one(
        tmp_path, base(rollout_log_probs=[None, -1.0, None, None], reward=None, _nonfinite=listing)
    )
    values = rollout.tokens["rollout_log_probs"]
    assert values[0] == -np.inf
    assert np.isnan(values[2])
    assert is_missing(values).tolist() == [False, False, False, True]
    assert rollout.reward == np.inf


@pytest.mark.parametrize(
    "listing", [5, {"values": {"9": "NaN"}}, {"values": {"0": "x"}}, {"none": {"0": "NaN"}}, {"values": 3}]
)
def test_a_listing_that_does_not_fit_is_said(listing: Any, tmp_path: Path) -> None:
    rollout, problems = one(tmp_path, base(values=[None, 1.0], _nonfinite=listing))
    assert [problem.code for problem in problems] == ["bad_nonfinite"]
    assert is_missing(rollout.tokens["values"]).tolist() == [True, False]


@pytest.mark.parametrize(
    ("value", "part"),
    [
        ("text", "is text, not a list"),
        ({"a": 1}, "is an object, not a list"),
        ([1.0, "2"], "holds text at position 1"),
        ([1.0, True], "holds true at position 1"),
        ([[1.0, 2.0]], "holds a list at position 0"),
        ([1.0, 10**400], "past 64 bits"),
    ],
)
def test_values_that_are_no_numbers_are_left_out(value: Any, part: str, tmp_path: Path) -> None:
    rollout, (problem,) = one(tmp_path, base(advantages=value))
    assert "advantages" not in rollout.tokens
    assert part in problem.message
    assert (problem.row, problem.field, problem.severity) == (1, "advantages", "warning")


@pytest.mark.parametrize(
    ("value", "part"), [([1, 2.5], "fractions"), ([1, None], "null"), ([1, True], "true at position 1")]
)
def test_ids_are_whole_numbers(value: Any, part: str, tmp_path: Path) -> None:
    rollout, (problem,) = one(tmp_path, base(response_ids=value))
    assert rollout.tokens == {}
    assert part in problem.message


@pytest.mark.parametrize("value", [2**63, 1e300, str(2**63)])
def test_a_number_past_64_bits_is_left_empty_and_not_said_to_be_read(value: Any, tmp_path: Path) -> None:
    rollout, problems = one(tmp_path, base(sample_index=value))
    assert rollout.sample_index is None
    assert [(problem.row, problem.code) for problem in problems] == [(1, "number_too_large")]


@pytest.mark.parametrize("mask", [[1, 0], [1.0, 0.0], [True, False]])
def test_masks_of_ones_and_zeros(mask: list[Any], tmp_path: Path) -> None:
    rollout, problems = one(tmp_path, base(response_mask=mask))
    assert rollout.tokens["response_mask"].tolist() == [1, 0]
    assert rollout.tokens["response_mask"].dtype == np.uint8
    assert problems == []


def test_masks_of_other_whole_numbers_are_left_out(tmp_path: Path) -> None:
    rollout, (problem,) = one(tmp_path, base(response_mask=[0, 2]))
    assert rollout.tokens == {}
    assert "values other than 0 and 1" in problem.message


def test_a_fractional_mask_beside_a_weight_is_left_out(tmp_path: Path) -> None:
    rollout, (problem,) = one(tmp_path, base(response_mask=[0.5, 1.0], loss_weight=[1.0, 1.0]))
    assert rollout.tokens["loss_weight"].tolist() == [1.0, 1.0]
    assert "never rounded" in problem.message


@pytest.mark.parametrize(
    ("fields", "kept"),
    [
        (
            {"response_ids": [1, 2], "response_tokens": ["a"], "values": [1.0, 2.0]},
            {"response_ids", "values"},
        ),
        ({"response_tokens": ["a", "b"], "values": [1.0], "advantages": [1.0, 2.0]}, {"advantages"}),
        ({"response_mask": [1, 1], "values": [1.0], "advantages": [1.0]}, {"response_mask"}),
        ({"values": [1.0], "advantages": [1.0, 2.0], "returns": [1.0, 2.0]}, {"advantages", "returns"}),
    ],
)
def test_who_says_how_long_a_response_is(fields: dict[str, Any], kept: set[str], tmp_path: Path) -> None:
    rollout, problems = one(tmp_path, base(**fields))
    assert rollout.tokens.keys() == kept
    assert {problem.code for problem in problems} == {"length_mismatch"}


def test_padded_rows_keep_their_masked_positions(tmp_path: Path) -> None:
    rollout, problems = one(
        tmp_path, base(response_ids=[5, 6, 0, 0], response_mask=[1, 1, 0, 0], values=[1, 2, 3, 4])
    )
    assert rollout.length == 4
    assert rollout.tokens["values"].tolist() == [1, 2, 3, 4]
    assert problems == []


def test_sequence_alignment_leaves_out_the_prompts_part(tmp_path: Path) -> None:
    row = base(prompt_ids=[1, 2, 3], response_ids=[4, 5], values=[0, 0, 0, 1.5, 2.5], advantages=[1.0, 2.0])
    rollout, (problem,) = one(tmp_path, row, {"alignment": "sequence"})
    assert rollout.tokens["values"].tolist() == [1.5, 2.5]
    assert rollout.tokens["advantages"].tolist() == [1.0, 2.0]
    assert (problem.severity, problem.field) == ("info", "values")
    rollout, (problem,) = one(tmp_path, row)
    assert "values" not in rollout.tokens
    assert "values has 5 values, response_ids has 2" in problem.message


def test_single_positive_log_probs_are_a_note_and_many_a_warning(tmp_path: Path) -> None:
    _, (note,) = one(tmp_path, base(ref_log_probs=[-1.0, -2.0, 0.01]))
    assert note.severity == "info"
    _, (warning,) = one(tmp_path, base(ref_log_probs=[0.9, 0.5, -0.1]))
    assert (warning.severity, warning.code) == ("warning", "positive_log_probs")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("1.5", 1.5), (" 2 ", 2.0), ("True", 1.0), ("false", 0.0), ("-inf", -np.inf), ("1e3", 1000.0),
        (True, 1.0),
        ("1,5", None), ("", None), ("1_000", None), ("0x10", None), ("１", None), ([1.0], None), ({}, None),
        ("1e999", None), ("1" * 50, float("1" * 50)),
    ],
)  # fmt: skip
def test_rewards_of_other_types(value: Any, expected: float | None, tmp_path: Path) -> None:
    rollout, problems = one(tmp_path, base(reward=value))
    assert rollout.reward == expected
    assert problems[0].code == ("not_a_number" if expected is None else "read_as_number")


@pytest.mark.parametrize(
    ("value", "expected"),
    [("7", 7), (7.0, 7), (" 8 ", 8), (7.5, None), (True, None), ("x", None), (2**63, None)],
)
def test_steps_of_other_types(value: Any, expected: int | None, tmp_path: Path) -> None:
    rollout, problems = one(tmp_path, base(step=value))
    assert rollout.step == expected
    assert len(problems) == 1


def test_large_whole_rewards_are_exact_or_left_out(tmp_path: Path) -> None:
    assert one(tmp_path, base(reward=2**60))[0].reward == float(2**60)
    rollout, (problem,) = one(tmp_path, base(reward=2**60 + 1))
    assert rollout.reward is None
    assert "does not fit float64" in problem.message


def test_words_for_booleans(tmp_path: Path) -> None:
    rollout, problems = one(tmp_path, base(truncated="False", terminated=1))
    assert (rollout.truncated, rollout.terminated) == (False, True)
    assert {problem.code for problem in problems} == {"read_as_boolean"}
    rollout, (problem,) = one(tmp_path, base(truncated="maybe"))
    assert rollout.truncated is None
    assert problem.code == "not_a_boolean"


def test_ground_truths_that_are_no_text_are_json(tmp_path: Path) -> None:
    assert one(tmp_path, base(ground_truth={"a": [1]}))[0].ground_truth == '{"a": [1]}'
    assert one(tmp_path, base(ground_truth=42))[0].ground_truth == "42"


def test_fields_that_are_not_mapped_are_kept_unchanged(tmp_path: Path) -> None:
    extra = {"acc": 1.0, "nested": {"a": [1, None]}, "flag": False, "big": 2**70, "list": [0.5, 1]}
    rollout, problems = one(tmp_path, base(**extra, extra={"own": 1}))
    assert rollout.extra == extra | {"own": 1}
    assert problems == []
    assert one(tmp_path, base(extra='{"a": 1}'))[0].extra == {"a": 1}
    assert one(tmp_path, base(extra="no json"))[0].extra == {"extra": "no json"}


def test_components_keep_what_does_not_apply(tmp_path: Path) -> None:
    rollout, _ = one(tmp_path, base(reward_components={"a": 1, "b": None, "c": "0.5", "d": "x"}))
    assert rollout.reward_components == {"a": 1.0, "b": None, "c": 0.5, "d": None}
    rollout, (problem,) = one(tmp_path, base(reward_components=[1, 2]))
    assert rollout.reward_components is None
    assert "is a list, not an object" in problem.message


def test_responses_of_messages_and_of_token_texts(tmp_path: Path) -> None:
    chat = [{"role": "assistant", "content": "hi"}]
    rollout, _ = one(
        tmp_path, {"group_id": "g", "prompt": [{"role": "user", "content": "q"}], "response": chat}
    )
    assert (rollout.response, rollout.derived["response"]) == ("hi", "derived:messages")
    assert rollout.messages == [{"role": "user", "content": "q"}, *chat]
    rollout, _ = one(tmp_path, {"group_id": "g", "response_tokens": ["a", " b"]})
    assert (rollout.response, rollout.length) == ("a b", 2)
    assert rollout.derived["response"] == "derived:join(response_tokens)"


def test_ids_alone_are_a_response(tmp_path: Path) -> None:
    rollout, problems = one(tmp_path, {"group_id": "g", "response_ids": [1, 2], PROMPT_FIELD: [3]})
    assert (rollout.response, rollout.length, problems) == (None, 2, [])
    assert rollout.prompt_ids is not None and rollout.prompt_ids.tolist() == [3]


def test_a_row_whose_only_response_cannot_be_used_is_not_taken(tmp_path: Path) -> None:
    """Else it would stand among the others with nothing to look at."""
    rows = [{"response_ids": {"a": 1}, "reward": 1.0}, {"response_ids": [1, 2], "reward": 0.0}]
    outcome = read_rows(tmp_path, *rows)
    assert [rollout.row for rollout in outcome.rollouts] == [2]
    assert outcome.errors == [1]
    assert "response_ids is an object, not a list" in outcome.only("unusable_values").message
