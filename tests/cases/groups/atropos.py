"""atropos: process supervision of one group."""

from tests.cases.build import Builder, Built, Case, known, rows_from


def process_supervision(case: Case) -> Built:
    steps = case["inputs"]["step_rewards"]
    rows = rows_from([[1] * len(row) for row in steps], ["one"] * len(steps), token_level_rewards=steps)
    body = {"convention": "process_grpo/atropos", "params": known(case["config"], "gamma", "std_tol")}
    return Built(rows, body, case["expected"].get("step_advantages"))


ADVANTAGES = "atroposlib.utils.advantages"
BUILDERS: dict[str, Builder] = {
    f"{ADVANTAGES}.compute_grpo_process_supervision_advantages": process_supervision
}
