"""Bad and awkward files: each gets the outcome that its owner needs, none a traceback or a silent repair."""

from pathlib import Path

import numpy as np
import pytest

from app.errors import TooLarge
from storage.arrays import is_missing
from tests.ingest.reading import SAMPLES, read, read_rows, sample

#: file -> rollouts, rejected rows, parts of what is said. An empty list means that nothing is said at all.
LOADED: dict[str, tuple[int, list[int], list[str]]] = {
    "truncated.jsonl": (
        7,
        [8],
        ["line 8 is incomplete (file ends inside a JSON object); 7 of 8 rows loaded"],
    ),
    "mismatched_lengths.jsonl": (
        8,
        [],
        [
            "row 2: advantages has 17 values, response_ids has 20",
            "row 5: rollout_log_probs has 15 values, response_ids has 14",
        ],
    ),
    "nan_infinity_tokens.jsonl": (
        8,
        [],
        ["1 NaN reward, 1 Infinity reward", "1 -Infinity rollout_log_probs", "left out of means"],
    ),
    "missing_group.jsonl": (
        8,
        [],
        ["no group id; grouping by identical prompt gives 8 groups of 1", "choose a column", "every n rows"],
    ),
    "duplicated_rows.jsonl": (
        8,
        [],
        ["4 exact duplicate rows (rows 9, 10, 11 and 12 repeat rows 3, 4, 5 and 6)", "duplicates=keep"],
    ),
    "bom.jsonl": (8, [], ["byte order mark"]),
    "crlf.jsonl": (8, [], []),
    "rollouts.jsonl.gz": (8, [], []),
    "gzip_named.jsonl": (8, [], []),
    "rollouts.jsonl.zst": (8, [], []),
    "mixed_steps.jsonl": (10, [], ["step is text; read as a whole number (row 9)"]),
    "zero_token_response.jsonl": (4, [], []),
    "float_mask.jsonl": (2, [], ["row 2: response_mask holds fractions: kept as loss_weight, never rounded"]),
    "rewards_as_strings.jsonl": (
        8,
        [],
        [
            "reward is text; read as a number (rows 1, 2, 3 and 6)",
            'row 4: reward "1,5" is not a number',
            'row 5: reward "" is not a number',
            'row 7: reward "[1.0, 0.1]" is not a number',
            'row 8: reward "N/A" is not a number',
        ],
    ),
    "uid_types.jsonl": (8, [], ["no group id in rows 4, 6 and 7: each stands alone", "kept apart: 1 (text)"]),
    "deep_nesting.jsonl": (2, [1], ["row 1: nested deeper than 64"]),
    "invalid_utf8_byte.jsonl": (3, [], ["row 2: 1 byte is not UTF-8 and shown as \ufffd"]),
    "nul_bytes.jsonl": (2, [], ["row 2: 512 NUL bytes around the row were skipped"]),
    "huge_numbers.jsonl": (
        1,
        [],
        [
            "response_ids holds 18446744073709551616 at position 0, which is past 64 bits",
            "reward 1e400 is too large for float64",
            "advantages holds values past float32",
        ],
    ),
    "negative_token_ids.jsonl": (1, [], ["3 masked labels (-100) in response_ids", "not decoded"]),
    "bf16_ok.pt": (2, [], ["tokens is read as response_ids", "neither lengths nor a mask"]),
    "pretty_printed_array.json": (3, [], []),
    "log_lines_mixed_in.jsonl": (
        3,
        [1, 2, 5],
        ["row 1: not a JSON row", "row 5: not a JSON row", "wandb: WARNING"],
    ),
    "mixed_prompt_types.jsonl": (4, [], []),
    "html_in_text.jsonl": (2, [], []),
    "positive_logprobs.jsonl": (2, [], ["are these probabilities", "(rows 1 and 2)"]),
}

#: file -> parts of the one sentence that refuses it
REFUSED: dict[str, list[str]] = {
    "spreadsheet_export.csv": [
        "'1,1'",
        "decimal=comma",
        "per-token columns cannot be trusted from this export (response_ids, advantages)",
        "CSV separated by semicolons",
        "step, prompt, response, reward, advantages, response_ids",
    ],
    "wrong_dtype.npz": ["response_ids", "float16", "cannot be exact above 2048", "int32"],
    "empty.jsonl": ["the file is empty (0 bytes)"],
    "blank_lines_only.jsonl": ["no rows"],
    "html_error_page.jsonl": ["this is an HTML page (title: 403 Forbidden), not rollouts", "needed a login"],
    "pickle_bomb.pkl": ["this pickle wants to call posix.system; refused"],
    "pickle_bomb_torch.pt": ["wants to call posix.system; refused"],
    "python_repr.jsonl": ["this is Python repr, not JSON; write it with json.dumps"],
    "needs_class.pt": [
        "this file holds a Python object of my_trainer.data.Batch, which cannot be opened safely",
        "save a dict of tensors",
    ],
    "parquet_bomb_2M_rows.parquet": ["2,000,000 rows", "1,000,000", "VANTAGE_MAX_ROWS"],
    "truncated.parquet": ["parquet footer missing; the copy is incomplete"],
    "bad_header.safetensors": ["not a valid safetensors file"],
    "no_lengths.safetensors": ["no response_lengths", "response_ids", "heat map of 2×3 values"],
    "plain_text.txt": ["no rows found", "canonical JSONL, Parquet"],
}
TOO_LARGE = {"zip_bomb_48MiB.jsonl.zip"}


def test_every_file_has_an_expected_outcome() -> None:
    found = {path.name for path in (SAMPLES / "broken").iterdir()}
    assert found == LOADED.keys() | REFUSED.keys() | TOO_LARGE


@pytest.mark.parametrize("name", LOADED)
def test_awkward_files_are_read_and_every_doubt_is_said(name: str) -> None:
    rollouts, rejected, parts = LOADED[name]
    outcome = sample(f"broken/{name}")
    said = "\n".join(problem.message for problem in outcome.problems)
    assert len(outcome.rollouts) == rollouts
    assert outcome.errors == rejected
    for part in parts:
        assert part in said
    if not parts:
        assert said == ""


@pytest.mark.parametrize("name", REFUSED)
def test_unreadable_files_are_refused_in_one_sentence(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    sentence = sample(f"broken/{name}").sentence()
    assert sentence.startswith(f"{name}: ")
    for part in REFUSED[name]:
        assert part in sentence
    assert list(tmp_path.iterdir()) == []  # a pickle that ran would have left a file


def test_a_zip_bomb_is_stopped_by_what_it_declares() -> None:
    with pytest.raises(TooLarge, match=r"expands past the limit.*VANTAGE_MAX_EXPANSION_RATIO"):
        sample("broken/zip_bomb_48MiB.jsonl.zip")


def test_mismatched_fields_are_dropped_from_their_row_alone() -> None:
    rows = sample("broken/mismatched_lengths.jsonl").rollouts
    assert "advantages" not in rows[1].tokens
    assert rows[1].tokens["rollout_log_probs"].size == 20
    assert "rollout_log_probs" not in rows[4].tokens
    assert rows[4].tokens["advantages"].size == 14
    assert all(len(row.tokens) == 4 for row in rows if row.row not in (2, 5))


def test_nonfinite_values_stay_what_they_are() -> None:
    rows = sample("broken/nan_infinity_tokens.jsonl").rollouts
    assert np.isnan(rows[0].reward or 0.0)
    assert rows[1].reward == np.inf
    log_probs = rows[2].tokens["rollout_log_probs"]
    assert int(np.isneginf(log_probs).sum()) == 1
    assert not is_missing(log_probs).any()


def test_steps_are_told_apart() -> None:
    steps = [rollout.step for rollout in sample("broken/mixed_steps.jsonl").rollouts]
    assert steps == [5, 5, 5, 5, 6, 6, 6, 6, 7, None]


def test_group_ids_keep_their_type_and_their_digits() -> None:
    rows = sample("broken/uid_types.jsonl").rollouts
    ids = [row.group_id for row in rows]
    assert ids == ["1", "1.0", "1 (text)", "row-4", "true", "row-6", "row-7", "9007199254740993"]
    assert rows[3].derived["group_id"] == "derived:alone"


def test_masks_of_fractions_become_loss_weights() -> None:
    whole, half = sample("broken/float_mask.jsonl").rollouts
    assert whole.tokens["response_mask"].dtype == np.uint8
    assert "response_mask" not in half.tokens
    assert set(half.tokens["loss_weight"].tolist()) == {0.5}


def test_text_rewards_are_read_only_where_they_are_numbers() -> None:
    rewards = [rollout.reward for rollout in sample("broken/rewards_as_strings.jsonl").rollouts]
    assert rewards[:2] == [1.0, 1.0]
    assert rewards[2] != rewards[2]
    assert rewards[3:] == [None, None, 0.3, None, None]


def test_numbers_out_of_range_are_left_out_and_the_row_stays() -> None:
    (rollout,) = sample("broken/huge_numbers.jsonl").rollouts
    assert rollout.group_id == "12345678901234567890123"
    assert rollout.reward is None
    assert rollout.tokens["advantages"].tolist() == [1e39, -1e39]
    assert "response_ids" not in rollout.tokens


def test_prompts_of_every_kind() -> None:
    text, messages, images, none = sample("broken/mixed_prompt_types.jsonl").rollouts
    assert text.prompt is not None and text.prompt_messages is None
    assert messages.prompt == "user: What is 17 + 25?"
    assert images.prompt == "user: What is 17 + 25?\n[1 image]"
    assert images.prompt_messages is not None and len(images.prompt_messages[0]["content"]) == 2
    assert none.prompt is None
    assert {rollout.group_id for rollout in (text, messages, images, none)} == {text.group_id}


def test_a_response_without_tokens_keeps_its_reward() -> None:
    empty = sample("broken/zero_token_response.jsonl").rollouts[0]
    assert (empty.length, empty.response, empty.reward) == (0, "", 1.1)
    assert all(array.size == 0 for array in empty.tokens.values())


def test_hostile_text_comes_through_unchanged() -> None:
    markup, formula = sample("broken/html_in_text.jsonl").rollouts
    assert markup.response is not None and markup.response.startswith("<script>")
    assert markup.prompt is not None and markup.prompt.startswith("\u202e")
    assert formula.response == '=HYPERLINK("//example.invalid","x")'


def test_negative_ids_are_kept_as_recorded() -> None:
    (rollout,) = sample("broken/negative_token_ids.jsonl").rollouts
    assert rollout.tokens["response_ids"].tolist()[:4] == [-100, -100, -100, 267]


def test_a_wrong_format_name_is_a_sentence_not_a_traceback() -> None:
    for format in ("canonical-parquet", "trl-parquet", "canonical-safetensors", "canonical-npz"):
        for name in (
            "plain_text.txt",
            "bad_header.safetensors",
            "wrong_dtype.npz",
            "empty.jsonl",
            "truncated.parquet",
        ):
            assert sample(f"broken/{name}", format=format).errors


def test_rows_without_a_response_are_rejected_one_by_one(tmp_path: Path) -> None:
    outcome = read_rows(
        tmp_path, {"response": "a"}, {"reward": 1.0}, {"response": {"choices": []}}, {"response": "b"}
    )
    assert [rollout.row for rollout in outcome.rollouts] == [1, 4]
    assert outcome.errors == [2, 3]
    assert "row 2: no response or response_ids" in outcome.only("no_response").message
    assert "response is a object" not in outcome.only("bad_response").message


def test_a_file_without_a_readable_row_says_so_once(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text('{"response": 5}\n{"response": {}}\n')
    outcome = read(path)
    assert outcome.errors == [1, 2, None]
    assert "no row could be read" in outcome.only("no_rows").message
