"""ms-swift's headers give the numbers of its own function, which ran to make the file of this test."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from app.configured import configured
from estimators import Batch, Request, estimate

DATA = json.loads((Path(__file__).parents[1] / "data" / "ms_swift.json").read_text())


@pytest.mark.parametrize("case", DATA["cases"])
def test_what_is_configured_gives_the_frameworks_numbers(case: dict[str, Any]) -> None:
    """A scale_rewards of null is what the estimator has unless it is told."""
    header = {
        "framework": "ms-swift",
        "advantage_estimator": case["advantage_estimator"],
        "scale_rewards": case["scale_rewards"],
        "reward_weights": DATA["reward_weights"],
        "num_generations": DATA["num_generations"],
    }
    said = configured(header)
    rewards = torch.tensor(DATA["rewards_per_func"], dtype=torch.float64)
    count = len(rewards)
    batch = Batch(
        offsets=torch.arange(count + 1),
        response_mask=torch.ones(count, dtype=torch.bool),
        group=torch.arange(count) // DATA["num_generations"],
        scores=torch.full((count,), torch.nan, dtype=torch.float64),
        components={"a": rewards[:, 0], "b": rewards[:, 1]},
    )
    found = estimate(batch, Request.from_dict({"convention": said.convention, "params": said.params}))
    assert said.not_understood == ()
    expected = torch.tensor(case["expected"], dtype=torch.float64)
    torch.testing.assert_close(found.advantages.double(), expected, rtol=0, atol=1e-12)
