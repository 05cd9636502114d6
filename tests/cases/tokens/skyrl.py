"""SkyRL: GAE, sums of rewards, normalisation over the batch, and the loss folded into advantages."""

from tests.cases.build import Builder, Built, Case, rows_from

AS_GIVEN = {"gamma": 0.0, "masked_tokens": "plain"}


def gae(case: Case) -> Built:
    inputs, expected = case["inputs"], case["expected"]
    rows = rows_from(
        inputs["response_mask"], values=inputs["values"], token_level_rewards=inputs["token_level_rewards"]
    )
    body = {"convention": "gae/skyrl", "params": case["config"]}
    return Built(rows, body, expected["advantages"], expected["returns"], on_masked=True)


def reinforce_plus_plus(case: Case) -> Built:
    inputs, expected = case["inputs"], case["expected"]
    rows = rows_from(inputs["response_mask"], token_level_rewards=inputs["token_level_rewards"])
    body = {"convention": "reinforce_plus_plus/skyrl", "params": case["config"]}
    return Built(rows, body, expected["advantages"], expected.get("returns"), on_masked=True)


def batch_normalize(case: Case) -> Built:
    """The advantages stand as rewards of tokens; with γ 0 they are their own advantages."""
    inputs = case["inputs"]
    rows = rows_from(inputs["response_mask"], token_level_rewards=inputs["advantages"])
    whitening = {
        "scope": "batch",
        "mean_scope": "cells",
        "ddof": 0,
        "eps_placement": "floor",
        "zero_masked": False,
    }
    body = {"estimator": "reward_to_go", "params": AS_GIVEN, "whitening": whitening}
    return Built(rows, body, case["expected"]["advantages"], on_masked=True)


def loss_reduction(case: Case) -> Built:
    inputs, config = case["inputs"], case["config"]
    cuts = config.get("prompt_boundaries", [[0, len(inputs["loss_mask"])]])
    groups = [f"prompt {k}" for k, (first, end) in enumerate(cuts) for _ in range(first, end)]
    rows = rows_from(inputs["loss_mask"], groups, token_level_rewards=inputs["advantages"])
    params = {**AS_GIVEN, "loss_agg_mode": config["loss_reduction"]}
    if config["loss_reduction"] == "seq_mean_token_sum_norm":
        params["loss_scale_factor"] = config["max_seq_len"]
    body = {"estimator": "reward_to_go", "params": params, "whitening": {"zero_masked": False}}
    return Built(rows, body, case["expected"]["scaled_advantages"], on_masked=True)


UTILS = "skyrl.backends.skyrl_train.utils.ppo_utils"
BUILDERS: dict[str, Builder] = {
    f"{UTILS}.compute_gae_advantage_return": gae,
    f"{UTILS}.compute_reinforce_plus_plus_outcome_advantage": reinforce_plus_plus,
    f"{UTILS}.apply_loss_reduction_to_advantages_minibatch": loss_reduction,
    "skyrl.train.trainer.RayPPOTrainer._normalize_advantages": batch_normalize,
}
