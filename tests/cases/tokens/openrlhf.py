"""OpenRLHF: one function for every estimator; `FAMILIES` says which builder makes the rows of which."""

from tests.cases.build import Builder, Built, Case, rows_from
from tests.cases.groups.openrlhf import grouped

KEYS = ("gamma", "lambd", "no_std_norm", "kl_coef", "reward_clip_range")


def gae(case: Case) -> Built:
    inputs, config, expected = case["inputs"], case["config"], case["expected"]
    rows = rows_from(
        inputs["action_mask"], reward=inputs["rewards"], values=inputs["values"], kl=inputs["kl"]
    )
    body = {"convention": "gae/openrlhf", "params": {name: config[name] for name in KEYS}}
    return Built(rows, body, expected["advantages"], expected["returns"], on_masked=True)


def reinforce(case: Case) -> Built:
    inputs, config, expected = case["inputs"], case["config"], case["expected"]
    rows = rows_from(inputs["action_mask"], reward=inputs["rewards"], kl=inputs["kl"])
    body = {"convention": "reinforce_plus_plus/openrlhf", "params": {name: config[name] for name in KEYS}}
    return Built(rows, body, expected["advantages"], expected["returns"], on_masked=True)


FAMILIES: dict[str, Builder] = {"gae": gae, "reinforce": reinforce}


def by_estimator(case: Case) -> Built | list[Built]:
    return FAMILIES.get(case["config"]["estimator"], grouped)(case)


MAKER = "openrlhf.trainer.ppo_utils.experience_maker.RemoteExperienceMaker"
BUILDERS: dict[str, Builder] = {f"{MAKER}.compute_advantages_and_returns": by_estimator}
