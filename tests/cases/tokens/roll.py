"""ROLL: one function for GAE and for plain sums of rewards."""

from tests.cases.build import Builder, Built, Case, rows_from


def compute_advantage(case: Case) -> Built:
    inputs, expected, config = case["inputs"], case["expected"], case["config"]
    rows = rows_from(
        inputs["response_mask"], values=inputs["values"], token_level_rewards=inputs["token_level_rewards"]
    )
    if config["adv_estimator"] == "gae":
        body = {"convention": "gae/roll", "params": config}
    else:
        whitening = {"ddof": 1, "count_eps": 1e-8, "too_few": "skip", "zero_masked": True}
        params = {"masked_tokens": "zero", **config}
        body = {"convention": "reward_to_go", "params": params, "whitening": whitening}
    return Built(rows, body, expected["advantages"], expected["returns"])


BUILDERS: dict[str, Builder] = {"roll.utils.functionals.compute_advantage": compute_advantage}
