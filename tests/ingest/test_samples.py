"""Every sample of a format that is read gives every row, with its lengths, groups and steps."""

import json
from collections import Counter
from typing import Any

import numpy as np
import pytest

from tests.ingest.reading import SAMPLES, Outcome, sample

TRL = "trl/conversational_completions/completions_00001.parquet"
CANONICAL = ("batch.jsonl", "batch.parquet", "batch.safetensors", "batch.npz", "batch_ragged.npz")

#: sample, format, rows, group sizes, (step, split) of every row, tokens in all (None: no per-token field)
EXPECTED: list[tuple[str, str, int, list[int], tuple[int | None, str | None], int | None]] = [
    ("canonical/batch.jsonl", "canonical-jsonl", 16, [4, 4, 4, 4], (4, "train"), 233),
    ("canonical/batch.parquet", "canonical-parquet", 16, [4, 4, 4, 4], (4, "train"), 233),
    ("canonical/batch.safetensors", "canonical-safetensors", 16, [4, 4, 4, 4], (4, None), 233),
    ("canonical/batch.npz", "canonical-npz", 16, [4, 4, 4, 4], (4, None), 233),
    ("canonical/batch_ragged.npz", "canonical-npz", 16, [4, 4, 4, 4], (None, None), 233),
    ("canonical/batch_tools.jsonl", "canonical-jsonl", 8, [4, 4], (1, None), 679),
    ("verl/v0_rollout_data_dir/1.jsonl", "verl-jsonl", 16, [4, 4, 4, 4], (1, "train"), None),
    ("verl/v1_rollout_data_dir/3.jsonl", "verl-jsonl", 16, [4, 4, 4, 4], (3, "train"), None),
    (TRL, "trl-parquet", 16, [4, 4, 4, 4], (1, None), None),
]


@pytest.mark.parametrize(("name", "format", "rows", "sizes", "place", "tokens"), EXPECTED)
def test_a_sample_gives_every_row(
    name: str,
    format: str,
    rows: int,
    sizes: list[int],
    place: tuple[int | None, str | None],
    tokens: int | None,
) -> None:
    outcome = sample(name)
    assert [header.format for header in outcome.headers] == [format]
    assert len(outcome.rollouts) == rows
    assert outcome.errors == []
    assert list(Counter(rollout.group_id for rollout in outcome.rollouts).values()) == sizes
    assert {(rollout.step, rollout.split) for rollout in outcome.rollouts} == {place}
    lengths = [rollout.length for rollout in outcome.rollouts]
    if tokens is None:
        assert set(lengths) == {None}
    else:
        assert sum(length or 0 for length in lengths) == tokens


def recorded() -> list[dict[str, Any]]:
    lines = (SAMPLES / "canonical/batch.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines[1:]]


@pytest.mark.parametrize("name", CANONICAL)
def test_every_canonical_container_holds_the_same_numbers(name: str) -> None:
    outcome = sample(f"canonical/{name}")
    for rollout, row in zip(outcome.rollouts, recorded(), strict=True):
        assert rollout.tokens.keys() >= {"response_ids", "response_mask", "advantages", "rollout_log_probs"}
        for field, array in rollout.tokens.items():
            assert array.tolist() == row[field], (rollout.row, field)
        assert rollout.reward == row["reward"]
        assert rollout.group_id == row["group_id"]
        if rollout.prompt_ids is not None:
            assert rollout.prompt_ids.tolist() == row["prompt_ids"]


def test_types_of_arrays() -> None:
    types = {
        name: {
            array.dtype
            for rollout in sample(f"canonical/{name}").rollouts
            for array in rollout.tokens.values()
        }
        for name in CANONICAL
    }
    whole = {np.dtype(np.int64), np.dtype(np.uint8)}
    assert types["batch.jsonl"] == whole | {np.dtype(np.float64)}
    assert all(types[name] == whole | {np.dtype(np.float32)} for name in CANONICAL[1:])


def test_a_canonical_row_keeps_every_field() -> None:
    for name in ("batch.jsonl", "batch.parquet"):
        rollout, row = sample(f"canonical/{name}").rollouts[0], recorded()[0]
        assert rollout.response_tokens == row["response_tokens"]
        assert rollout.messages == row["messages"]
        assert rollout.reward_components == {"accuracy": 1.0, "format": 0.1}
        fields = ("prompt", "response", "sample_id", "sample_index", "data_source", "ground_truth")
        for field in (*fields, "finish_reason", "policy_version", "split"):
            assert getattr(rollout, field) == row[field], field
        assert rollout.extra == {}
        assert rollout.derived == {}


@pytest.mark.parametrize("name", [f"canonical/{name}" for name in CANONICAL])
def test_the_header_is_the_files_metadata(name: str) -> None:
    (header,) = sample(name).headers
    assert header.run == "demo"
    assert header.raw["adv_estimator"] == "grpo"
    assert header.raw["provenance"]["advantages"] == "recorded"


def test_tool_tokens_are_masked_and_kept() -> None:
    rollout = sample("canonical/batch_tools.jsonl").rollouts[0]
    mask = rollout.tokens["response_mask"]
    assert (mask.size, int(mask.sum())) == (82, 70)
    assert rollout.finish_reason == "truncated"


def test_safetensors_take_texts_from_their_rows() -> None:
    rollout = sample("canonical/batch.safetensors").rollouts[-1]
    assert rollout.ground_truth is not None
    assert rollout.data_source == "toy_code/python"
    assert rollout.sample_id == f"{rollout.group_id}/3"


def lengths_of(outcome: Outcome) -> list[int | None]:
    return [rollout.length for rollout in outcome.rollouts]


def test_lengths_are_those_of_the_responses() -> None:
    expected = [len(row["response_ids"]) for row in recorded()]
    assert all(lengths_of(sample(f"canonical/{name}")) == expected for name in CANONICAL)


def test_every_rollout_has_a_digest_of_its_own() -> None:
    for name, *_ in EXPECTED:
        digests = {rollout.digest for rollout in sample(name).rollouts}
        assert len(digests) == len(sample(name).rollouts)
        assert {len(digest) for digest in digests} == {32}
