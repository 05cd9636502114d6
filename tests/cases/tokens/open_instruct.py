"""open-instruct: GAE without a mask."""

from tests.cases.build import Builder, Built, Case, known, rows_from


def plain_gae(case: Case) -> Built:
    inputs, expected = case["inputs"], case["expected"]
    mask = [[1] * len(row) for row in inputs["values"]]
    rows = rows_from(mask, values=inputs["values"], token_level_rewards=inputs["rewards"])
    body = {"estimator": "gae", "params": known(case["config"], "gamma", "lam")}
    return Built(rows, body, expected["advantages"], expected["returns"])


BUILDERS: dict[str, Builder] = {"open_instruct.rl_utils.calculate_advantages": plain_gae}
