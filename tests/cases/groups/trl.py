"""TRL's estimators, whose groups are runs of neighbouring rows."""

from typing import Any

from tests.cases.build import Builder, Built, Case, known, lone_tokens, rows_from


def _components(table: list[list[float | None]]) -> dict[str, list[float | None]]:
    """Reward function -> its rewards, from a row per rollout."""
    return {f"reward_{k}": [row[k] for row in table] for k in range(len(table[0]))}


def grpo(case: Case) -> Built:
    inputs, config = case["inputs"], case["config"]
    table = inputs["rewards_per_func"]
    rows = rows_from(lone_tokens(len(table)), None, _components(table))
    params = known(config, "num_generations", "reward_weights", "epsilon", "scale_rewards")
    if config.get("multi_objective_aggregation") == "normalize_then_sum":
        name = "gdpo/trl"
    elif config["scale_rewards"] in ("none", False):
        name = "dr_grpo/trl"
    else:
        name = "grpo/trl-batch" if config["scale_rewards"] == "batch" else "grpo/trl-group"
    params |= known(config, "multi_objective_aggregation")
    return Built(rows, {"convention": name, "params": params}, case["expected"]["advantages"])


def rloo(case: Case) -> Built:
    inputs, config = case["inputs"], case["config"]
    table = inputs["rewards_per_func"]
    mask = inputs.get("response_mask") or lone_tokens(len(table))
    rows = rows_from(mask, None, _components(table))
    keys = ("num_generations", "reward_weights", "beta", "normalize_advantages", "reward_clip_range")
    body = {"convention": "rloo/trl", "params": known(config, *keys)}
    return Built(rows, body, case["expected"]["advantages"])


def async_grpo(case: Case) -> Built:
    """One group; its functions are listed the other way round, and summed unweighted."""
    by_function = case["inputs"]["rewards_by_func"]
    components = {f"reward_{k}": rewards for k, rewards in enumerate(by_function)}
    count = len(by_function[0])
    rows = rows_from(lone_tokens(count), ["one"] * count, components)
    params: dict[str, Any] = known(case["config"], "epsilon", "ddof")
    return Built(rows, {"convention": "grpo/trl-async", "params": params}, case["expected"]["advantages"])


BUILDERS: dict[str, Builder] = {
    "trl.trainer.grpo_trainer.GRPOTrainer._generate_and_score_completions": grpo,
    "trl.trainer.rloo_trainer.RLOOTrainer._generate_and_score_completions": rloo,
    "trl.experimental.async_grpo.async_rollout_worker._score_group": async_grpo,
}
