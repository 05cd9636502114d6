"""NeMo-RL: GAE, raw rewards and on-policy distillation."""

from tests.cases.build import Builder, Built, Case, rows_from


def gae(case: Case) -> Built:
    inputs, expected = case["inputs"], case["expected"]
    rows = rows_from(
        inputs["mask"],
        reward=inputs["rewards"],
        values=inputs["values"],
        old_log_probs=inputs["logprobs"],
        ref_log_probs=inputs["reference_logprobs"],
    )
    body = {"convention": "gae/nemo", "params": case["config"]}
    return Built(rows, body, expected["advantages"], expected["returns"], on_masked=True)


def raw_reward(case: Case) -> Built:
    """Nothing is taken off the reward; whitened as REINFORCE++ is."""
    inputs = case["inputs"]
    rows = rows_from(inputs["mask"], reward=inputs["rewards"])
    params = {"minus_baseline": False, **case["config"]}
    body = {"convention": "reinforce_plus_plus/nemo", "params": params}
    return Built(rows, body, case["expected"]["advantages"])


def distillation(case: Case) -> Built:
    """No reward, and the KL to the teacher, whole, off every token."""
    inputs = case["inputs"]
    rows = rows_from(
        inputs["mask"],
        reward=[0.0] * len(inputs["mask"]),
        old_log_probs=inputs["prev_logprobs"],
        ref_log_probs=inputs["teacher_logprobs"],
    )
    params = {"minus_baseline": False, "normalize_advantages": False, "kl_coef": 1.0, "kl_type": "k1"}
    body = {"convention": "reinforce_plus_plus/nemo", "params": params}
    return Built(rows, body, case["expected"]["advantages"], on_masked=True)


ESTIMATOR = "nemo_rl.algorithms.advantage_estimator"
BUILDERS: dict[str, Builder] = {
    f"{ESTIMATOR}.GeneralizedAdvantageEstimator.compute_advantage": gae,
    f"{ESTIMATOR}.RawRewardAdvantageEstimator.compute_advantage": raw_reward,
    f"{ESTIMATOR}.OPDAdvantageEstimator.compute_advantage": distillation,
}
