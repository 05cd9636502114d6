"""tinker-cookbook: a KL penalty on advantages that are there already."""

from tests.cases.build import Builder, Built, Case, known, rows_from


def kl_penalty(case: Case) -> Built:
    """The advantages stand as scores of a group whose mean is 0."""
    inputs = case["inputs"]
    scores = [max(row, key=abs) for row in inputs["advantages"]]
    assert sum(scores) == 0
    rows = rows_from(
        inputs["mask"],
        ["one"] * len(scores),
        reward=scores,
        old_log_probs=inputs["logprobs"],
        ref_log_probs=inputs["base_logprobs"],
    )
    params = known(case["config"], "kl_penalty_coef", "kl_discount_factor")
    body = {"convention": "dr_grpo/tinker", "params": params}
    return Built(rows, body, case["expected"]["advantages"])


BUILDERS: dict[str, Builder] = {"tinker_cookbook.rl.metrics.incorporate_kl_penalty": kl_penalty}
