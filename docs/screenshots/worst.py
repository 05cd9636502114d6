"""Batches that pages find hard: hostile text, numbers that are none, one rollout, five thousand of them, and
recorded advantages that a mistake explains, that nothing explains, and that several conventions explain."""

import csv
import io
import json
from collections.abc import Callable
from math import inf, nan, sqrt
from typing import Any

import numpy as np

Row = dict[str, Any]

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(1)>\u202eabc\u200b\u2028{{ 7*7 }}"
LONG = "a_name_of_a_source_without_any_place_to_break_it_" * 4
TOKENS = 12


def rows_of(rewards: np.ndarray[Any, Any], size: int, seed: int = 0) -> list[Row]:
    """A row per reward, groups of `size` one after another, each row with everything that can be recorded."""
    random = np.random.default_rng(seed)
    rows = []
    for i, reward in enumerate(rewards.tolist()):
        tokens = int(random.integers(3, TOKENS))
        old = np.round(-random.exponential(0.5, tokens), 4)
        rows.append(
            {
                "step": 1,
                "group_id": f"g{i // size}",
                "data_source": ("maths", "code")[i // size % 2],
                "prompt": f"Question {i // size}",
                "response": f"Answer {i} " * 4,
                "response_ids": random.integers(0, 1000, tokens).tolist(),
                "response_mask": [1] * tokens,
                "reward": reward,
                "token_level_rewards": [0.0] * (tokens - 1) + [reward],
                "values": np.round(random.normal(0.3, 0.2, tokens), 4).tolist(),
                "old_log_probs": old.tolist(),
                "rollout_log_probs": np.round(old - random.exponential(0.05, tokens), 4).tolist(),
                "ref_log_probs": np.round(old + random.normal(0, 0.1, tokens), 4).tolist(),
            }
        )
    return rows


def record(rows: list[Row], advantages: np.ndarray[Any, Any]) -> list[Row]:
    for row, advantage in zip(rows, advantages.tolist(), strict=True):
        row["advantages"] = [advantage] * len(row["response_ids"])
    return rows


def scaled(grouped: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """`[groups, size]`: (reward − mean) / (std + 1e-6), ddof 1."""
    centred = grouped - grouped.mean(1, keepdims=True)
    return np.asarray(centred / (grouped.std(1, ddof=1, keepdims=True) + 1e-6))


def coins(count: int, seed: int) -> np.ndarray[Any, Any]:
    """Rewards of 0 and 1 with a part for the format, rounded."""
    random = np.random.default_rng(seed)
    return np.asarray(np.round((random.random(count) < 0.4) * 0.8 + random.choice([0.0, 0.1, 0.2], count), 3))


def mistaken() -> list[Row]:
    """Groups were taken as runs of eight rows where every eighth row belongs together."""
    rewards = coins(64, 1)
    rows = record(rows_of(rewards, 8), scaled(rewards.reshape(8, 8)).ravel())
    for i, row in enumerate(rows):
        row["group_id"], row["prompt"] = f"g{i % 8}", f"Question {i % 8}"
    return rows


def unexplained() -> list[Row]:
    return record(rows_of(coins(64, 2), 8), np.round(np.random.default_rng(3).normal(0, 1, 64), 5))


def ambiguous() -> list[Row]:
    """Every group's std is 1, so that dividing by it changes nothing."""
    rewards = np.tile([0.0, sqrt(2)], 8)
    return record(rows_of(rewards, 2), scaled(rewards.reshape(8, 2)).ravel().astype(np.float32))


def one() -> list[Row]:
    return rows_of(np.array([1.0]), 1)


def many() -> list[Row]:
    rewards = coins(5000, 4)
    return record(rows_of(rewards, 8), scaled(rewards.reshape(625, 8)).ravel())


def hostile() -> list[Row]:
    rows = rows_of(coins(16, 5), 4)
    for row in rows:
        pieces = ["Now", HOSTILE, "\n", "\t", "<|im_end|>", LONG, " end", "ש", "\u200b"]
        row["response_tokens"] = (pieces * 2)[: len(row["response_ids"])]
        row["response"] = "".join(row["response_tokens"])
        row["group_id"] = f"{row['group_id']}-{HOSTILE}"
        row["data_source"] = LONG if row["data_source"] == "code" else HOSTILE
        row["prompt"] += HOSTILE + LONG
        row["ground_truth"] = row["finish_reason"] = HOSTILE
        row["reward_components"] = {HOSTILE: row["reward"], LONG: 0.5}
        row["extra"] = {HOSTILE: [HOSTILE, LONG], LONG: {"deep": {LONG: HOSTILE}}}
    return rows


def broken() -> list[Row]:
    """Rewards, values, log-probs and advantages of which some are no numbers, and some are missing."""
    rows = record(rows_of(coins(24, 6), 4), np.round(np.random.default_rng(7).normal(0, 1, 24), 4))
    for i, row in enumerate(rows):
        if i % 5 == 0:
            row["reward"] = (nan, inf, None)[i // 5 % 3]
        if i % 4 == 1:
            row["advantages"][0] = nan
            row["old_log_probs"][-1] = -inf
            row["values"][0] = 3e38
        if i % 6 == 2:
            row["response_mask"] = [0] * len(row["response_ids"])
    return rows


def ill() -> list[Row]:
    """As much wrong in one batch as there is room for."""
    rewards = np.repeat([0.0, 1.0, 1.0, 1.0, 0.0, 0.0, 1.0, 1.0], 8).astype(float)
    rewards[:12] = coins(12, 8)
    rows = record(rows_of(rewards, 8), np.random.default_rng(9).normal(0, 8, 64))
    for i, row in enumerate(rows):
        row["finish_reason"] = "length" if i % 2 else "stop"
        row["truncated"] = bool(i % 2)
        row["old_log_probs"][0] = 0.3
        row["rollout_log_probs"] = [value - 1.1 for value in row["old_log_probs"]]
        if i % 7 == 0:
            row["response_mask"][0] = 0
            row["token_level_rewards"] = [row["reward"]] + [0.0] * (len(row["response_ids"]) - 1)
    rows[20]["values"][0] = rows[33]["old_log_probs"][0] = nan
    for i in (41, 42, 43):
        rows[i].update({name: rows[40][name] for name in rows[40] if name != "step"})
    rows[50]["group_id"] = "alone"
    rows[51]["response_mask"] = [0] * len(rows[51]["response_ids"])
    return rows


WORST: dict[str, Callable[[], list[Row]]] = {
    each.__name__: each for each in (mistaken, unexplained, ambiguous, one, many, hostile, broken, ill)
}


def file_of(name: str) -> bytes:
    """Canonical JSONL of one of them."""
    header = {"schema": "rollout-batch", "version": 1, "run": f"worst-{name}"}
    lines = [{"_header": header}, *WORST[name]()]
    return "".join(json.dumps(line) + "\n" for line in lines).encode()


def table() -> bytes:
    """A CSV whose columns are named by nobody's convention, with markup, text that turns the page, names
    without a place to break, decimal commas, and as many columns as people have."""
    names = [HOSTILE, LONG, "=cmd()", *(f"c{i}" for i in range(24))]
    text = io.StringIO(newline="")
    writer = csv.writer(text, delimiter=";")
    writer.writerow(names)
    for i in range(8):
        writer.writerow(
            [HOSTILE * 3, LONG * 4, "1,5", *(f"{LONG}{i}" if j % 5 else "0,25" for j in range(24))]
        )
    return text.getvalue().encode()


def decoded(texts: list[str]) -> tuple[bytes, bytes]:
    """(tokenizer.json whose tokens are these texts, canonical JSONL with the ids alone)."""
    unknown = "<unk>"
    model = {
        "type": "WordLevel",
        "vocab": {t: i for i, t in enumerate([unknown, *texts])},
        "unk_token": unknown,
    }
    tokenizer = {"version": "1.0", "added_tokens": [], "model": model, "decoder": {"type": "Fuse"}}
    ids = list(range(1, len(texts) + 1)) * 3
    header = {"_header": {"schema": "rollout-batch", "version": 1, "run": "worst-decoded"}}
    rows = [
        {"step": 1, "group_id": f"{LONG}{i // 4}", "reward": float(i % 2), "response_ids": ids,
         "response": "".join(texts * 3), "prompt": LONG}
        for i in range(8)
    ]  # fmt: skip
    lines = "".join(json.dumps(line) + "\n" for line in (header, *rows))
    return json.dumps(tokenizer).encode(), lines.encode()
