"""slime: the sums of REINFORCE++, and whitening."""

from tests.cases.build import Builder, Built, Case, rows_from


def returns(case: Case) -> Built:
    """Discounted on every position, the reward on the last unmasked token."""
    inputs, config, expected = case["inputs"], case["config"], case["expected"]["returns"]
    rows = rows_from(inputs["loss_masks"], reward=inputs["rewards"], kl=inputs["kl"])
    params = {"masked_tokens": "zero", "gamma": config["gamma"], "kl_coef": config["kl_coef"]}
    body = {"estimator": "reinforce_plus_plus", "params": params, "whitening": {"zero_masked": False}}
    return Built(rows, body, expected, expected, on_masked=True)


def whiten(case: Case) -> Built:
    """The values stand as rewards of tokens; with γ 0 they are their own advantages."""
    inputs = case["inputs"]
    rows = rows_from([inputs["mask"]], token_level_rewards=[inputs["values"]])
    body = {
        "estimator": "reward_to_go",
        "params": {"gamma": 0.0, "masked_tokens": "plain"},
        "whitening": {"scope": "batch", "eps": case["config"]["epsilon"], "zero_masked": False},
    }
    return Built(rows, body, [case["expected"]["out"]], on_masked=True)


BUILDERS: dict[str, Builder] = {
    "slime.utils.ppo_utils.get_reinforce_plus_plus_returns": returns,
    "slime.utils.distributed_utils.distributed_masked_whiten": whiten,
}
