"""slime: rewards by position, and REINFORCE++ with a baseline."""

from tests.cases.build import Builder, Built, Case, known, lone_tokens, rows_from

CENTRED = ("reinforce_plus_plus_baseline",)


def post_process_rewards(case: Case) -> Built:
    rewards, config = case["inputs"]["rewards"], case["config"]
    rows = rows_from(lone_tokens(len(rewards)), None, reward=rewards)
    scaled = config["grpo_std_normalization"] and config["advantage_estimator"] not in CENTRED
    body = {"convention": "grpo/slime" if scaled else "dr_grpo/slime", "params": dict(config)}
    return Built(rows, body, case["expected"]["rewards"])


def baseline_advantages(case: Case) -> Built:
    """The rewards are centred already, so nothing may be taken off again; only unmasked tokens are alike."""
    inputs = case["inputs"]
    rows = rows_from(inputs["loss_masks"], None, reward=inputs["rewards"], kl=inputs["kl"])
    params = {"minus_baseline": False, "kl_placement": "token", **known(case["config"], "kl_coef")}
    body = {"estimator": "reinforce_plus_plus_baseline", "params": params}
    return Built(rows, body, case["expected"]["advantages"])


BUILDERS: dict[str, Builder] = {
    "slime.ray.rollout.RolloutManager._post_process_rewards": post_process_rewards,
    "slime.utils.ppo_utils.get_reinforce_plus_plus_baseline_advantages": baseline_advantages,
}
