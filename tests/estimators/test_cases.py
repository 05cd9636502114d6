"""Agreement with numbers that the frameworks' own code produced, by function call: a JSON file per case in
tests/data/cases."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from estimators import ESTIMATORS, Batch, Refused, Request, Result, estimate
from tests.cases import BUILDERS, Built, Case, load, paths, requests_of
from tests.cases.build import batch_from, by_step


@pytest.mark.parametrize("path", paths(), ids=lambda path: str(path.stem))
def test_agrees_with_the_framework(path: Path) -> None:
    case = load(path)
    for made in requests_of(case):
        request = Request.from_dict(made.body)
        if made.advantages is None:
            with pytest.raises(Refused):
                run(made, request)
            continue
        for batch, result, places in run(made, request):
            wanted = [made.advantages[i] for i in places]
            compare(batch, result.advantages, wanted, case, made, "advantages")
            if made.returns is not None:
                returns = result.advantages_raw if result.returns is None else result.returns
                compare(batch, returns, [made.returns[i] for i in places], case, made, "returns")


@pytest.mark.parametrize("path", paths(), ids=lambda path: str(path.stem))
def test_the_whole_configuration_can_be_pasted(path: Path) -> None:
    """Keys of the case's configuration that the request leaves out change nothing in it."""
    case = load(path)
    for made in requests_of(case):
        if made.body.get("convention", "reward_to_go") == "reward_to_go" or "coefs" in case["config"]:
            continue
        pasted = {**made.body, "params": {**case["config"], **made.body.get("params", {})}}
        assert Request.from_dict(pasted) == Request.from_dict(made.body)


def run(made: Built, request: Request) -> list[tuple[Batch, Result, list[int]]]:
    """The batch and the result of each step, and which of the rows are its own."""
    found, state, carry = [], None, ESTIMATORS[request.estimator].carry
    for rows in by_step(made.rows):
        batch = batch_from(rows, request.grouping)
        places = [i for i, row in enumerate(made.rows) if row["step"] == rows[0]["step"]]
        found.append((batch, estimate(batch, request, state=state), places))
        state = None if carry is None else carry(batch, request.params, state or {})
    return found


def compare(batch: Batch, mine: Tensor, wanted: Sequence[Any], case: Case, made: Built, what: str) -> None:
    """A number per rollout stands for each of its unmasked tokens. Masked ones: where the case says so."""
    owner, mask = batch.rollout_of_token, batch.response_mask
    spread = mine if mine.shape == mask.shape else mine[owner]
    flat = torch.tensor(
        [
            float(value)
            for entry, length in zip(wanted, batch.lengths.tolist(), strict=True)
            for value in (entry if isinstance(entry, list) else [entry] * length)
        ],
        dtype=torch.float64,
    )
    kept = torch.ones_like(mask) if made.on_masked else mask
    torch.testing.assert_close(
        spread.double()[kept],
        flat[kept],
        rtol=case["tolerance"]["rtol"],
        atol=case["tolerance"]["atol"],
        equal_nan=True,
        msg=lambda text: f"{case['name']}, {what}: {text}",
    )


def test_every_case_has_a_builder() -> None:
    """A case that is copied here and has no builder would otherwise fail with a KeyError only."""
    assert {load(path)["function"] for path in paths()} <= {*BUILDERS}
    assert len(paths()) >= 20
