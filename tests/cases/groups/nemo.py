"""NeMo-RL's estimators that compare the rollouts of a prompt."""

from tests.cases.build import Builder, Built, Case, known, lone_tokens, rows_from

KEYS = ("use_leave_one_out_baseline", "normalize_rewards", "epsilon")


def grpo(case: Case) -> Built:
    inputs, config = case["inputs"], case["config"]
    rows = rows_from(lone_tokens(len(inputs["rewards"])), inputs["prompt_ids"], reward=inputs["rewards"])
    name = "grpo/nemo-loo" if config["use_leave_one_out_baseline"] else "grpo/nemo"
    body = {"convention": name, "params": known(config, *KEYS)}
    return Built(rows, body, case["expected"]["advantage_per_response"])


def gdpo(case: Case) -> Built:
    inputs = case["inputs"]
    components = {name.removeprefix("reward/"): values for name, values in inputs["components"].items()}
    mask = inputs.get("mask") or lone_tokens(len(inputs["prompt_ids"]))
    rows = rows_from(mask, inputs["prompt_ids"], components)
    body = {"convention": "gdpo/nemo", "params": known(case["config"], *KEYS, "reward_weights")}
    return Built(rows, body, case["expected"].get("advantage_per_response"))


def reinforce_plus_plus(case: Case) -> Built:
    inputs, config = case["inputs"], case["config"]
    rows = rows_from(
        inputs["mask"],
        inputs["prompt_ids"],
        reward=inputs["rewards"],
        old_log_probs=inputs["logprobs_policy"],
        ref_log_probs=inputs["logprobs_reference"],
    )
    params = known(config, "minus_baseline", "use_kl_in_reward", "kl_coef", "kl_type")
    body = {"convention": "reinforce_plus_plus/nemo", "params": params}
    return Built(rows, body, case["expected"]["advantages"])


ESTIMATOR = "nemo_rl.algorithms.advantage_estimator"
BUILDERS: dict[str, Builder] = {
    f"{ESTIMATOR}.GRPOAdvantageEstimator.compute_advantage": grpo,
    f"{ESTIMATOR}.GDPOAdvantageEstimator.compute_advantage": gdpo,
    f"{ESTIMATOR}.ReinforcePlusPlusAdvantageEstimator.compute_advantage": reinforce_plus_plus,
}
