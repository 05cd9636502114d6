"""verl: GAE, and KL estimates as the penalty of a token."""

from tests.cases.build import Builder, Built, Case, known, rows_from


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


CORE = "verl.trainer.ppo.core_algos"
BUILDERS: dict[str, Builder] = {
    f"{CORE}.compute_gae_advantage_return": gae,
    "verl.trainer.ppo.ray_trainer.apply_kl_penalty+compute_advantage": gae,
    f"{CORE}.kl_penalty": kl_penalty,
}
