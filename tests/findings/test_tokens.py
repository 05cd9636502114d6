"""Findings about masks, padding and where things stand on tokens, on rows as a file has them."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sqlalchemy import Engine

from tests.findings.ingested import canonical, found

Row = dict[str, Any]
WORDS = ["a", " b", " c", "<eos>"]


def row(i: int, reward: float, mask: list[int], tokens: list[str] | None = None, **more: Any) -> Row:
    texts = {} if tokens is None else {"response_tokens": tokens}
    return {
        "step": 1, "group_id": f"g{i // 2}", "prompt": f"prompt {i // 2}", "response": f"answer {i}",
        "reward": reward, "response_mask": mask, **texts, **more,
    }  # fmt: skip


def plain(count: int = 6, **more: Any) -> list[Row]:
    """Rollouts that nothing is wrong with, of four trainable tokens each."""
    return [row(i, float(i % 2 == 0), [1, 1, 1, 1], WORDS, **more) for i in range(count)]


def test_padding_that_is_trained_on(sqlite_engine: Engine, tmp_path: Path) -> None:
    said = found(sqlite_engine, tmp_path, canonical("08"))
    padding = said["padding_trainable"]
    evidence = padding["evidence"]
    assert padding["severity"] == "critical" and padding["rollouts"] == [0]
    assert (evidence["tokens"], evidence["trainable_tokens"], evidence["without_padding"]) == (2, 7, 5)
    assert evidence["places"] == {"0": [3, 4]} and evidence["rollouts_without_end_token"] == 1
    assert said["missing_eos"]["rollouts"] == [0] and said["missing_eos"]["severity"] == "warning"
    assert said["truncated_rollouts"]["evidence"]["share"] == 0.5
    assert set(said) == {"padding_trainable", "missing_eos", "truncated_rollouts"}


@pytest.mark.parametrize(
    ("tokens", "ids", "header", "padded"),
    [
        (["a", "<eos>", "<eos>", "<eos>"], None, {}, 2),
        (["a", "b", "<|im_end|>", "<|endoftext|>"], None, {}, 1),
        (None, [5, 6, 2, 0], {"eos_token_id": 2, "pad_token_id": 0}, 1),
        (None, [5, 2, 2, 2], {"eos_token_id": [2, 3], "pad_token_id": 2}, 2),
        (["a", "<eos>", "b", "<eos>"], None, {}, 0),  # two turns
        (None, [5, 6, 0, 0], {}, 0),  # nothing says that 0 is padding
    ],
)
def test_what_is_padding(
    sqlite_engine: Engine,
    tmp_path: Path,
    tokens: list[str] | None,
    ids: list[int] | None,
    header: dict[str, Any],
    padded: int,
) -> None:
    more = {} if ids is None else {"response_ids": ids}
    rows = [*plain(), row(6, 1.0, [1] * 4, tokens, **more), row(7, 0.0, [1] * 4, WORDS)]
    said = found(sqlite_engine, tmp_path, rows, header)
    assert ("padding_trainable" in said) == bool(padded)
    if padded:
        assert said["padding_trainable"]["evidence"]["tokens"] == padded
        assert said["padding_trainable"]["rollouts"] == [6]


def test_an_end_token_that_is_missing(sqlite_engine: Engine, tmp_path: Path) -> None:
    rows = plain(truncated=False)
    rows[1]["response_tokens"] = ["a", " b", " c", " d"]
    rows[3] |= {"response_tokens": ["a", " b", " c", " d"], "truncated": True}
    said = found(sqlite_engine, tmp_path, rows)
    assert set(said) == {"missing_eos"} and said["missing_eos"]["rollouts"] == [1]
    assert said["missing_eos"]["evidence"]["with_end_token"] == 4


def test_end_tokens_that_nobody_records(sqlite_engine: Engine, tmp_path: Path) -> None:
    rows = plain(truncated=False)
    for each in rows:
        each["response_tokens"] = ["a", " b", " c", " d"]
    assert found(sqlite_engine, tmp_path, rows) == {}


@pytest.mark.parametrize(("cut", "severity"), [(1, None), (3, "info"), (5, "warning"), (6, "critical")])
def test_truncation_by_share(sqlite_engine: Engine, tmp_path: Path, cut: int, severity: str | None) -> None:
    rows = plain(12)
    for i, each in enumerate(rows):
        each["finish_reason"] = "length" if i < cut else "stop"
        each["response_tokens"] = [*"abcd"] if i < cut else WORDS
    said = found(sqlite_engine, tmp_path, rows)
    assert {code: each["severity"] for code, each in said.items()} == (
        {"truncated_rollouts": severity} if severity else {}
    )


def test_mask_of_another_length(sqlite_engine: Engine, tmp_path: Path) -> None:
    rows = plain(20)
    rows[2]["response_mask"] = [1, 1, 1]
    said = found(sqlite_engine, tmp_path, rows)
    assert set(said) == {"mask_length_mismatch"}
    mismatch = said["mask_length_mismatch"]
    assert mismatch["severity"] == "warning" and mismatch["rollouts"] == [2]
    assert mismatch["evidence"]["difference"] == {"−1": 1} and mismatch["evidence"]["without_mask"] == 1


def test_values_of_another_length_than_the_mask(sqlite_engine: Engine, tmp_path: Path) -> None:
    rows = [row(i, float(i % 2), [1, 1, 1], values=[0.1, 0.2, 0.3, 0.4][: 3 + (i == 1)]) for i in range(4)]
    said = found(sqlite_engine, tmp_path, rows)["mask_length_mismatch"]
    assert said["severity"] == "critical" and said["evidence"]["fields"] == {"values": 1}


def rewarded(at: int, mask: list[int], tokens: list[str] | None) -> list[Row]:
    return [
        row(
            i,
            float(i % 2),
            mask,
            tokens,
            token_level_rewards=[float(i % 2) * (j == at) for j in range(len(mask))],
        )
        for i in range(6)
    ]


@pytest.mark.parametrize(
    ("at", "mask", "tokens", "codes"),
    [
        (2, [1, 1, 0, 0], ["a", "<eos>", "<pad>", "<pad>"], {"reward_past_end", "reward_on_masked_token"}),
        (2, [1, 1, 0, 0], None, {"reward_past_end", "reward_on_masked_token"}),
        (3, [1, 1, 0, 0], ["a", "b", "obs", "obs"], {"reward_on_masked_token"}),
        (1, [1, 1, 0, 0], ["a", "<eos>", "<pad>", "<pad>"], set()),
    ],
)
def test_reward_behind_the_end(
    sqlite_engine: Engine, tmp_path: Path, at: int, mask: list[int], tokens: list[str] | None, codes: set[str]
) -> None:
    said = found(sqlite_engine, tmp_path, rewarded(at, mask, tokens))
    assert set(said) == codes
    if "reward_past_end" in codes:
        evidence = said["reward_past_end"]["evidence"]
        assert evidence["rollouts"] == 3 and evidence["one_behind"] == 3 and evidence["share"] == 1.0


def test_advantages_reset_at_an_observation(sqlite_engine: Engine, tmp_path: Path) -> None:
    said = found(sqlite_engine, tmp_path, canonical("06"))
    assert set(said) == {"advantages_on_masked_tokens"}
    evidence = said["advantages_on_masked_tokens"]["evidence"]
    assert said["advantages_on_masked_tokens"]["severity"] == "critical"
    assert evidence["zero_before_gap"] == 2 and evidence["trainable_tokens"] == 4
    assert evidence["example"] == {"index": 0, "positions": [3], "advantages": [0.81]}


@pytest.mark.parametrize(
    ("masked", "severity"), [(0.0, None), ("same", None), (-0.3, "info"), ("mixed", "warning")]
)
def test_advantages_on_masked_tokens(
    sqlite_engine: Engine, tmp_path: Path, masked: float | str, severity: str | None
) -> None:
    rows = []
    for i in range(6):
        own = 0.5 if i % 2 else -0.5
        there = {"same": own, "mixed": 0.1 * (i + 1)}.get(str(masked), masked)
        rows.append(row(i, float(i % 2), [1, 1, 0, 1], advantages=[own, own, there, own]))
    said = found(sqlite_engine, tmp_path, rows)
    assert {code: each["severity"] for code, each in said.items()} == (
        {"advantages_on_masked_tokens": severity} if severity else {}
    )


def test_each_rank_holds_one_rollout(sqlite_engine: Engine, tmp_path: Path) -> None:
    said = found(sqlite_engine, tmp_path, canonical("29"))["too_few_tokens_to_whiten"]
    tried = said["evidence"].pop("tried")
    assert said["evidence"] == {"scope": "rank", "scopes": 2, "too_small": 2, "tokens": 2, "rollouts": 1}
    assert tried == {"all_ranks": {"helps": True, "rollouts": 2, "tokens": 6}}


def test_a_batch_of_one_token(sqlite_engine: Engine, tmp_path: Path) -> None:
    rows = [row(0, 1.0, [1], ["a"]), row(1, 0.0, [0], ["<pad>"])]
    said = found(sqlite_engine, tmp_path, rows)["too_few_tokens_to_whiten"]
    assert said["severity"] == "critical" and said["evidence"]["tokens"] == 1


def test_rows_that_fill_up_the_batch(sqlite_engine: Engine, tmp_path: Path) -> None:
    said = found(sqlite_engine, tmp_path, canonical("34"))
    assert set(said) == {"empty_response"} and said["empty_response"]["severity"] == "info"
    assert said["empty_response"]["evidence"]["fillers"] == 2 and said["empty_response"]["rollouts"] == [2, 3]
    assert "set aside" in said["empty_response"]["title"]


def with_kl(beta: float, masked: bool, scores: bool, seed: int = 0) -> list[Row]:
    random, rows = np.random.default_rng(seed), []
    for i in range(8):
        mask = np.array([1, 1, 1, 0, 0, 1, 1, 1])
        kl = random.exponential(0.1, 8) * (1 if masked else mask)
        score = np.array([0.0] * 7 + [float(i % 2)])
        more = {"kl": kl.tolist(), "token_level_rewards": (score - beta * kl).tolist()}
        if scores:
            more["token_level_scores"] = score.tolist()
        rows.append(row(i, float(i % 2), mask.tolist(), **more))
    return rows


@pytest.mark.parametrize(
    ("beta", "masked", "scores", "source"),
    [
        (0.05, True, True, "penalty"),
        (0.05, True, False, "reward"),
        (0.0, True, True, "kl"),
        (0.05, False, True, None),
    ],
)
def test_kl_of_masked_tokens(
    sqlite_engine: Engine, tmp_path: Path, beta: float, masked: bool, scores: bool, source: str | None
) -> None:
    said = found(sqlite_engine, tmp_path, with_kl(beta, masked, scores)).get("masked_kl_leaks")
    assert (said["evidence"]["source"] if said else None) == source
    if said and source == "reward":
        assert said["evidence"]["beta"] == pytest.approx(beta) and said["evidence"]["tokens"] == 16
