"""open-instruct: GAE without a mask, and on rows of several sequences."""

from itertools import pairwise
from typing import Any

from tests.cases.build import Builder, Built, Case, known, rows_from


def plain_gae(case: Case) -> Built:
    inputs, expected = case["inputs"], case["expected"]
    mask = [[1] * len(row) for row in inputs["values"]]
    rows = rows_from(mask, values=inputs["values"], token_level_rewards=inputs["rewards"])
    body = {"estimator": "gae", "params": known(case["config"], "gamma", "lam")}
    return Built(rows, body, expected["advantages"], expected["returns"])


def packed_gae(case: Case) -> Built:
    """A rollout per sequence: `dones` names the last token of each."""
    inputs, expected = case["inputs"], case["expected"]

    def cut(rows: list[list[Any]]) -> list[list[Any]]:
        found = []
        for row, dones in zip(rows, inputs["dones"], strict=True):
            ends = [t + 1 for t, done in enumerate(dones) if done]
            borders = [0, *ends, *([len(row)] if not ends or ends[-1] < len(row) else [])]
            found += [row[a:b] for a, b in pairwise(borders)]
        return found

    rows = rows_from(
        cut(inputs["response_masks"]),
        values=cut(inputs["values"]),
        token_level_rewards=cut(inputs["rewards"]),
    )
    params = {"masked_tokens": "cut", **known(case["config"], "gamma", "lam")}
    body = {"estimator": "gae", "params": params, "whitening": {"zero_masked": False}}
    return Built(rows, body, cut(expected["advantages"]), cut(expected["returns"]), on_masked=True)


BUILDERS: dict[str, Builder] = {
    "open_instruct.rl_utils.calculate_advantages": plain_gae,
    "open_instruct.rl_utils.calculate_advantages_packed": packed_gae,
}
