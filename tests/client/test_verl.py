"""verl's batch by its shape alone; the real package is tested by `make test-trainers`."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

import vantage_client.verl as adapter
from tests.client.conftest import Site


def batch() -> Any:
    ends = torch.tensor([4, 2, 0])
    tokens = (torch.arange(4) < ends[:, None]).long()
    prompt = torch.tensor([[0, 1, 1], [1, 1, 1], [0, 0, 1]])
    tensors = {
        "prompts": torch.arange(9).reshape(3, 3),
        "responses": 10 + torch.arange(12).reshape(3, 4),
        "attention_mask": torch.cat([prompt, tokens], dim=1),
        "response_mask": tokens * torch.tensor([1, 0, 1, 1]),
        "advantages": torch.full((3, 4), 0.5, dtype=torch.bfloat16),
        "token_level_scores": tokens.float(),
        "ref_log_prob": -torch.ones(3, 4),
    }
    others = {
        "uid": np.array(["a", "a", "b"], dtype=object),
        "reward_model": np.array([{"ground_truth": 1}] * 3, dtype=object),
        "acc": np.array([1.0, 0.0, 1.0], dtype=object),
        "raw_prompt": np.array([[{"role": "user", "content": "q"}]] * 3, dtype=object),
    }
    return SimpleNamespace(batch=tensors, non_tensor_batch=others, meta_info={"global_steps": 5})


def test_columns_leave_padding_out_and_tool_tokens_in() -> None:
    made = adapter.columns(batch())
    assert made["response_lengths"].tolist() == [4, 2, 0]
    assert [ids.tolist() for ids in made["prompt_ids"]] == [[1, 2], [3, 4, 5], [8]]
    assert made["reward"].tolist() == [4.0, 2.0, 0.0]
    assert (made["group_id"], made["ground_truth"]) == (["a", "a", "b"], ["1", "1", "1"])
    assert made["ref_log_probs"].tolist() == [[-1.0] * 4] * 3
    assert made["acc"] == [1.0, 0.0, 1.0]


def test_a_batch_is_recorded_where_it_was_computed(site: Site) -> None:
    def compute_advantage(data: Any, adv_estimator: str, gamma: float = 1.0) -> Any:
        return data

    module = SimpleNamespace(compute_advantage=compute_advantage)
    with site.recorder("verl") as recorder:
        detach = adapter.attach(recorder, module=module)
        given = batch()
        assert module.compute_advantage(given, adv_estimator="grpo", gamma=0.9) is given
        detach()
        assert module.compute_advantage is compute_advantage
        assert recorder.flush(read=True)
    steps = site.client.steps("verl")
    assert (steps["step"].tolist(), steps["rollouts"].tolist()) == ([5], [3])
    about = site.client.json(f"/batches/{steps['batch'][0]}")
    assert about["provenance"]["header"]["adv_estimator"] == "grpo"
    rollout = site.client.rollout(steps["batch"][0], 1)
    assert rollout["response_ids"].tolist() == [14, 15]
    assert rollout["response_mask"].tolist() == [1, 0]


def test_what_is_no_batch_does_not_stop_the_training(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    with site.recorder("no verl") as recorder:
        adapter.record(recorder, 1, SimpleNamespace(batch={}, non_tensor_batch={}))
        adapter.record(recorder, 1, None)
    assert recorder.stats.logged == 0
    assert sum("was not recorded" in message for message in caplog.messages) == 2
