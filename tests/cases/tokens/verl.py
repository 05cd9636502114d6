"""verl: GAE, sums of rewards, token baselines, KL as the penalty of a token, and the loss of all tokens."""

import math

from tests.cases.build import Builder, Built, Case, known, rows_from
from tests.oracles.loss import loss


def gae(case: Case) -> Built:
    inputs, expected = case["inputs"], case["expected"]
    rows = rows_from(
        inputs["response_mask"],
        values=inputs["values"],
        token_level_rewards=inputs.get("token_level_rewards"),
        token_level_scores=inputs.get("token_level_scores"),
        old_log_probs=inputs.get("old_log_probs"),
        ref_log_probs=inputs.get("ref_log_prob"),
    )
    params = known(case["config"], "gamma", "lam", "kl_coef", "kl_penalty")
    body = {"convention": "gae/verl", "params": params}
    return Built(rows, body, expected.get("advantages"), expected.get("returns"), on_masked=True)


def kl_penalty(case: Case) -> Built:
    """A token whose reward is 0 and whose critic says 0 has the penalty itself as its error."""
    inputs = case["inputs"]
    nothing = [[0.0] * len(row) for row in inputs["logprob"]]
    rows = rows_from(
        [[1] * len(row) for row in nothing],
        values=nothing,
        token_level_scores=nothing,
        old_log_probs=inputs["logprob"],
        ref_log_probs=inputs["ref_logprob"],
    )
    params = {"gamma": 0.0, "kl_coef": 1.0, "kl_penalty": case["config"]["kl_penalty"]}
    wanted = [[-value for value in row] for row in case["expected"]["kl"]]
    return Built(rows, {"convention": "td_error", "params": params}, wanted)


def reinforce_plus_plus(case: Case) -> Built:
    """Up to 0.8 the sum started anew in front of every masked token."""
    inputs, expected = case["inputs"], case["expected"]
    rows = rows_from(inputs["response_mask"], token_level_rewards=inputs["token_level_rewards"])
    early = tuple(int(part) for part in str(case["version"]).split(".")[:2]) < (0, 9)
    convention = "reinforce_plus_plus/verl-0.8" if early else "reinforce_plus_plus/verl"
    body = {"convention": convention, "params": known(case["config"], "gamma")}
    return Built(rows, body, expected["advantages"], expected["returns"], on_masked=True)


def remax(case: Case) -> Built:
    inputs, expected = case["inputs"], case["expected"]
    rows = rows_from(
        inputs["response_mask"],
        token_level_rewards=inputs["token_level_rewards"],
        reward_baseline=inputs["reward_baselines"],
    )
    body = {"convention": "remax/verl"}
    return Built(rows, body, expected["advantages"], expected["returns"], on_masked=True)


def token_baseline(convention: str) -> Builder:
    def build(case: Case) -> Built:
        inputs, expected = case["inputs"], case["expected"]
        names = ("token_level_rewards", "old_log_probs", "sum_pi_squared", "rollout_is_weights")
        rows = rows_from(inputs["response_mask"], inputs["index"], **{name: inputs[name] for name in names})
        params = known(case["config"], "epsilon", "handle_zero_tail")
        body = {"convention": convention, "params": params}
        return Built(rows, body, expected["advantages"], expected["returns"], on_masked=True)

    return build


def agg_loss(case: Case) -> Built:
    """The losses of tokens stand as rewards; with γ 0 they are advantages, and these times the weights that
    the averaging gives them add up to the loss. The oracle says how, and must itself give the loss."""
    inputs, mode = case["inputs"], case["config"]["loss_agg_mode"]
    losses, mask = inputs["loss_mat"], inputs["loss_mask"]
    width = float(case["config"].get("loss_scale_factor") or len(mask[0]))
    groups = list(range(len(mask)))
    shares = []
    for i, row in enumerate(mask):
        ones = [[float(i == j)] * len(row) for j in groups]
        weight = loss(ones, mask, groups, mode, width) / max(sum(row), 1)
        shares.append([x * weight for x in losses[i]])
    total = sum(x for row, own in zip(shares, mask, strict=True) for x, m in zip(row, own, strict=True) if m)
    assert math.isclose(total, case["expected"]["loss"], rel_tol=1e-9, abs_tol=1e-11)
    rows = rows_from(mask, token_level_rewards=losses)
    params = {"gamma": 0.0, "masked_tokens": "plain", "loss_agg_mode": mode, "loss_scale_factor": width}
    return Built(rows, {"estimator": "reward_to_go", "params": params}, shares)


CORE = "verl.trainer.ppo.core_algos"
BUILDERS: dict[str, Builder] = {
    f"{CORE}.compute_gae_advantage_return": gae,
    "verl.trainer.ppo.ray_trainer.apply_kl_penalty+compute_advantage": gae,
    f"{CORE}.kl_penalty": kl_penalty,
    f"{CORE}.compute_reinforce_plus_plus_outcome_advantage": reinforce_plus_plus,
    f"{CORE}.compute_remax_outcome_advantage": remax,
    f"{CORE}.compute_optimal_token_baseline_advantage": token_baseline("optimal_token_baseline/verl"),
    f"{CORE}.compute_multi_turn_optimal_token_baseline_advantage": token_baseline(
        "tir_optimal_token_baseline/verl"
    ),
    f"{CORE}.agg_loss": agg_loss,
}
