"""Recorded advantages of the diagnosis cases are traced back to what made them."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from estimators import Batch, factorize
from estimators.reconcile import Hints
from tests.estimators.build import batch_of
from tests.estimators.test_reconcile import agreeing, best, traced

CASES = Path(__file__).parents[1] / "data" / "diagnosis"

#: What each case with recorded advantages has to be called: convention and mistake of an agreeing candidate.
EXPECTED: dict[str, tuple[str, str | None]] = {
    "01": ("gae/verl-0.4", None),
    "02": ("gae/verl-0.4", None),
    "03": ("gae/verl-0.4", None),
    "05": ("gae/verl", None),
    "06": ("reinforce_plus_plus/verl-0.8", None),
    "08": ("grpo/verl", None),
    "10": ("grpo/verl", None),
    "12": ("grpo/verl", None),
    "13": ("grpo/verl", "stride_grouping:4"),
    "15": ("grpo/verl", "stride_grouping:4"),
    "17": ("grpo/verl", "group_split"),
    "18": ("grpo/nemo", "prompt_grouping"),
    "21": ("grpo/rllm", None),
    "23": ("grpo/verl", None),
    "24": ("grpo/verl", "bf16_rewards"),
    "27": ("grpo/verl", None),
    "31": ("grpo/verl", None),
    "33": ("grpo/verl", None),
}


def _case(number: str) -> tuple[Batch, Tensor, Hints]:
    path = next(CASES.glob(f"{number}-*.json"))
    rows = json.loads(path.read_text())["input"]["rows"]
    columns: dict[str, Any] = {
        ours: [row[theirs] for row in rows]
        for ours, theirs in (("token_level_rewards", "token_rewards"), ("values", "values"))
        if theirs in rows[0]
    }
    batch = batch_of(
        [row["response_mask"] for row in rows],
        [row["group"] for row in rows],
        [row["reward"] for row in rows],
        **columns,
    )
    if "rank" in rows[0]:
        batch = replace(batch, rank=torch.tensor([row["rank"] for row in rows]))
    recorded = [row["advantages"] * (1 if len(row["advantages"]) > 1 else len(row["tokens"])) for row in rows]
    flat = torch.tensor([float(x) for row in recorded for x in row], dtype=torch.float64)
    return batch, flat, Hints(prompt=factorize(row["prompt"] for row in rows)[0])


@pytest.mark.parametrize("number", EXPECTED)
def test_a_diagnosis_case_is_named(number: str) -> None:
    found = traced(*_case(number))
    assert EXPECTED[number] in agreeing(found)
    assert best(found).mistake == EXPECTED[number][1]
