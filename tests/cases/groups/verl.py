"""verl's outcome estimators."""

from tests.cases.build import Builder, Built, Case, rows_from


def grpo(case: Case) -> Built:
    inputs, config = case["inputs"], case["config"]
    rows = rows_from(
        inputs["response_mask"], inputs["index"], token_level_rewards=inputs["token_level_rewards"]
    )
    body: dict[str, object] = {"convention": "grpo/verl", "params": {"epsilon": config["epsilon"]}}
    if not config.get("norm_adv_by_std_in_grpo", True):
        body = {"convention": "dr_grpo/verl"}
    return Built(rows, body, case["expected"].get("advantages"))


CORE = "verl.trainer.ppo.core_algos"
BUILDERS: dict[str, Builder] = {
    f"{CORE}.compute_grpo_outcome_advantage": grpo,
    f"{CORE}.compute_grpo_vectorized_outcome_advantage": grpo,
}
