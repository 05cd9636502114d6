"""verl's own `compute_advantage` on a `DataProto` of its own, recorded and recomputed."""

from typing import Any

import numpy as np
import pytest
import torch
from verl.protocol import DataProto
from verl.trainer.ppo import ray_trainer

import vantage_client.verl
from vantage_client import Client, Recorder

ROWS, PROMPT, WIDTH = 8, 5, 10


def batch() -> DataProto:
    """Two prompts of four responses each, padded as verl pads, the last response of each a tool's in part."""
    torch.manual_seed(0)
    ends = torch.tensor([10, 7, 3, 9, 1, 10, 4, 6])
    tokens = torch.arange(WIDTH).expand(ROWS, WIDTH) < ends[:, None]
    mask = tokens.long()
    mask[3, 2:4] = 0
    prompt = torch.ones(ROWS, PROMPT, dtype=torch.long)
    prompt[4:, :2] = 0
    rewards = torch.zeros(ROWS, WIDTH)
    rewards[torch.arange(ROWS), ends - 1] = torch.tensor([1.0, 0.0, 0.5, 1.0, 0.0, 0.0, 1.0, 0.25])
    return DataProto.from_dict(
        tensors={
            "prompts": torch.arange(ROWS * PROMPT).reshape(ROWS, PROMPT) * prompt,
            "responses": (100 + torch.arange(ROWS * WIDTH).reshape(ROWS, WIDTH)) * tokens,
            "attention_mask": torch.cat([prompt, tokens.long()], dim=1),
            "response_mask": mask,
            "old_log_probs": -torch.rand(ROWS, WIDTH),
            "token_level_scores": rewards,
            "token_level_rewards": rewards,
            "values": torch.rand(ROWS, WIDTH),
        },
        non_tensors={
            "uid": np.array([f"prompt-{i // 4}" for i in range(ROWS)], dtype=object),
            "data_source": np.array(["math"] * ROWS, dtype=object),
            "reward_model": np.array([{"ground_truth": str(i)} for i in range(ROWS)], dtype=object),
            "acc": np.array([float(i % 2) for i in range(ROWS)], dtype=object),
        },
        meta_info={"global_steps": 17},
    )


@pytest.mark.parametrize(("estimator", "convention"), [("grpo", "grpo/verl"), ("gae", "gae/verl")])
def test_what_verl_computed_is_recorded_and_recomputed(
    recorder: Recorder, client: Client, estimator: str, convention: str
) -> None:
    detach = vantage_client.verl.attach(recorder)
    try:
        settings: Any = {"adv_estimator": estimator, "gamma": 1.0, "lam": 0.9, "config": {}}
        made: Any = ray_trainer.compute_advantage(batch(), **settings)
    finally:
        detach()
    assert recorder.flush(read=True)
    steps = client.steps(recorder.run)
    assert steps["step"].tolist() == [17]
    assert (steps["rollouts"].tolist(), steps["groups"].tolist()) == ([8], [2])
    advantages = made.batch["advantages"]
    own = client.estimate(steps["batch"][0], convention, params={"lam": 0.9} if estimator == "gae" else {})
    assert own["state"] == "succeeded", own
    computed = client.advantages(own["id"])["advantages"]
    for index, end in enumerate([10, 7, 3, 9, 1, 10, 4, 6]):
        rollout = client.rollout(steps["batch"][0], index)
        assert rollout["response_ids"].tolist() == made.batch["responses"][index, :end].tolist()
        assert len(rollout["prompt_ids"]) == (5 if index < 4 else 3)
        assert rollout["advantages"].astype(np.float32).tolist() == advantages[index, :end].tolist()
        trained = rollout["response_mask"] > 0
        assert computed[index][trained] == pytest.approx(rollout["advantages"][trained], abs=1e-5)
        assert (rollout["data_source"], rollout["ground_truth"]) == ("math", str(index))


def test_the_batch_goes_on_unchanged(recorder: Recorder) -> None:
    before = batch()
    detach = vantage_client.verl.attach(recorder, module=ray_trainer)
    try:
        after = ray_trainer.compute_advantage(before, adv_estimator="grpo", config={})
    finally:
        detach()
    assert after is before
    assert "vantage" not in ray_trainer.compute_advantage.__module__
