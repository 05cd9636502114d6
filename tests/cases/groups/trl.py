"""TRL's GRPO, whose groups are runs of neighbouring rows."""

from tests.cases.build import Builder, Built, Case, lone_tokens, rows_from


def grpo(case: Case) -> Built:
    inputs, config = case["inputs"], case["config"]
    table, size = inputs["rewards_per_func"], config["num_generations"]
    components = {f"reward_{k}": [row[k] for row in table] for k in range(len(table[0]))}
    group = [f"prompt {i // size}" for i in range(len(table))]
    rows = rows_from(lone_tokens(len(table)), group, components)
    params = {"reward_weights": config["reward_weights"]}
    if config["scale_rewards"] == "none":
        body: dict[str, object] = {"convention": "dr_grpo/trl", "params": params}
    else:
        params["epsilon"] = config["epsilon"]
        body = {"convention": f"grpo/trl-{config['scale_rewards']}", "params": params}
    return Built(rows, body, case["expected"]["advantages"])


BUILDERS: dict[str, Builder] = {"trl.trainer.grpo_trainer.GRPOTrainer._generate_and_score_completions": grpo}
