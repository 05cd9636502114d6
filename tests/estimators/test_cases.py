"""Agreement with numbers that the frameworks' own code produced: a JSON file per case in tests/data/cases."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from estimators import Batch, Refused, Request, Result, estimate
from estimators.kl import kl_penalty
from tests.estimators.build import batch_of, flat

CASES = sorted((Path(__file__).parent.parent / "data" / "cases").glob("*.json"))
Case = dict[str, Any]
Built = tuple[Batch, dict[str, Any]]


def verl_gae(case: Case) -> Built:
    inputs, config = case["inputs"], case["config"]
    params = {name: config[name] for name in ("gamma", "lam", "kl_coef", "kl_penalty") if name in config}
    batch = batch_of(
        inputs["response_mask"],
        values=inputs["values"],
        token_level_rewards=inputs.get("token_level_rewards"),
        token_level_scores=inputs.get("token_level_scores"),
        old_log_probs=inputs.get("old_log_probs"),
        ref_log_probs=inputs.get("ref_log_prob"),
    )
    return batch, {"convention": "gae/verl", "params": params}


def verl_grpo(case: Case) -> Built:
    inputs, config = case["inputs"], case["config"]
    batch = batch_of(
        inputs["response_mask"], group=inputs["index"], token_level_rewards=inputs["token_level_rewards"]
    )
    if config.get("norm_adv_by_std_in_grpo", config.get("grpo_norm_by_std", True)):
        return batch, {"convention": "grpo/verl", "params": {"epsilon": config["epsilon"]}}
    return batch, {"convention": "dr_grpo/verl"}


def skyrl_gae(case: Case) -> Built:
    inputs, config = case["inputs"], case["config"]
    batch = batch_of(
        inputs["response_mask"], values=inputs["values"], token_level_rewards=inputs["token_level_rewards"]
    )
    params = {"gamma": config["gamma"], "lam": config["lambd"]}
    return batch, {"convention": "gae/verl-0.4", "params": params, "whitening": {"count_eps": 0.0}}


def openrlhf(case: Case) -> Built:
    inputs, config = case["inputs"], case["config"]
    size = config["n_samples_per_prompt"]
    mask = inputs["action_mask"]
    groups = [row // size for row in range(len(mask))]
    batch = batch_of(mask, groups, inputs["rewards"], values=inputs["values"], kl=inputs["kl"])
    if config["estimator"] == "dr_grpo":
        return batch, {"estimator": "dr_grpo", "params": {"score": "reward"}}
    keys = ("gamma", "lambd", "no_std_norm", "kl_coef", "reward_clip_range")
    return batch, {"convention": "gae/openrlhf", "params": {name: config[name] for name in keys}}


def plain_gae(case: Case) -> Built:
    inputs, config = case["inputs"], case["config"]
    mask = [[1.0] * len(row) for row in inputs["values"]]
    batch = batch_of(mask, values=inputs["values"], token_level_rewards=inputs["rewards"])
    return batch, {"estimator": "gae", "params": {"gamma": config["gamma"], "lam": config["lam"]}}


def trl_grpo(case: Case) -> Built:
    inputs, config = case["inputs"], case["config"]
    rows, size = inputs["rewards_per_func"], config["num_generations"]
    components = {f"reward_{k}": [row[k] for row in rows] for k in range(len(rows[0]))}
    batch = batch_of([[1.0]] * len(rows), [i // size for i in range(len(rows))], components=components)
    params: dict[str, Any] = {"reward_weights": config["reward_weights"]}
    if config["scale_rewards"] == "none":
        return batch, {"convention": "dr_grpo/trl", "params": params}
    params["epsilon"] = config["epsilon"]
    return batch, {"convention": f"grpo/trl-{config['scale_rewards']}", "params": params}


OPENRLHF = "openrlhf.trainer.ppo_utils.experience_maker.RemoteExperienceMaker"
BUILDERS: dict[str, Callable[[Case], Built]] = {
    "verl.trainer.ppo.core_algos.compute_gae_advantage_return": verl_gae,
    "verl.trainer.ppo.ray_trainer.apply_kl_penalty+compute_advantage": verl_gae,
    "verl.trainer.ppo.core_algos.compute_grpo_outcome_advantage": verl_grpo,
    "verl.trainer.ppo.core_algos.compute_grpo_vectorized_outcome_advantage": verl_grpo,
    "skyrl.backends.skyrl_train.utils.ppo_utils.compute_grpo_outcome_advantage": verl_grpo,
    "skyrl.backends.skyrl_train.utils.ppo_utils.compute_gae_advantage_return": skyrl_gae,
    "open_instruct.rl_utils.calculate_advantages": plain_gae,
    "trl.trainer.grpo_trainer.GRPOTrainer._generate_and_score_completions": trl_grpo,
}
BUILDERS[f"{OPENRLHF}.compute_advantages_and_returns"] = openrlhf
KL_FUNCTION = "verl.trainer.ppo.core_algos.kl_penalty"


def load(path: Path) -> Case:
    case: Case = json.loads(path.read_text())
    return case


def agree(mine: Tensor, expected: Any, case: Case, what: str) -> None:
    wanted = flat(expected) if isinstance(expected[0], list) else torch.tensor(expected, dtype=torch.float64)
    tolerance = case["tolerance"]
    torch.testing.assert_close(
        mine.double(),
        wanted,
        rtol=tolerance["rtol"],
        atol=tolerance["atol"],
        msg=lambda text: f"{case['name']}, {what}: {text}",
    )


@pytest.mark.parametrize("path", CASES, ids=lambda path: str(path.stem))
def test_agrees_with_the_framework(path: Path) -> None:
    case = load(path)
    if case["function"] == KL_FUNCTION:
        inputs = case["inputs"]
        kl = kl_penalty(flat(inputs["logprob"]), flat(inputs["ref_logprob"]), case["config"]["kl_penalty"])
        agree(kl, case["expected"]["kl"], case, "kl")
        return
    batch, body = BUILDERS[case["function"]](case)
    precision = "float32" if case["dtype"] == "float32" else "float64"
    request = Request.from_dict({**body, "precision": precision})
    if "raises" in case["expected"]:
        with pytest.raises(Refused):
            estimate(batch, request)
        return
    compare(batch, estimate(batch, request), case)


def compare(batch: Batch, result: Result, case: Case) -> None:
    """Per token where the case has a value for each, masked positions too where a recursion leaves one."""
    expected = case["expected"]
    advantages = expected["advantages"]
    if result.per_token:
        agree(result.advantages, advantages, case, "advantages")
        assert result.returns is not None
        agree(result.returns, expected["returns"], case, "returns")
        return
    if not isinstance(advantages[0], list):
        agree(result.advantages, advantages, case, "advantages")
        return
    owner = batch.rollout_of_token
    spread = result.advantages[owner]
    mask = batch.response_mask
    wanted = torch.where(mask, flat(advantages), 0.0)
    agree(torch.where(mask, spread, 0.0), wanted.tolist(), case, "advantages")


def test_every_case_has_a_builder() -> None:
    """A case that is copied here and has no builder would otherwise fail with a KeyError only."""
    functions = {load(path)["function"] for path in CASES}
    assert functions <= {*BUILDERS, KL_FUNCTION}
    assert len(CASES) >= 20
