"""SkyRL: GAE."""

from tests.cases.build import Builder, Built, Case, rows_from


def gae(case: Case) -> Built:
    inputs, config, expected = case["inputs"], case["config"], case["expected"]
    rows = rows_from(
        inputs["response_mask"], values=inputs["values"], token_level_rewards=inputs["token_level_rewards"]
    )
    params = {"gamma": config["gamma"], "lam": config["lambd"]}
    body = {"convention": "gae/verl-0.4", "params": params, "whitening": {"count_eps": 0.0}}
    return Built(rows, body, expected["advantages"], expected["returns"], on_masked=True)


BUILDERS: dict[str, Builder] = {
    "skyrl.backends.skyrl_train.utils.ppo_utils.compute_gae_advantage_return": gae
}
