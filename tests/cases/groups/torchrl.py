"""torchrl: standardisation inside groups."""

from tests.cases.build import Builder, Built, Case, known, lone_tokens, rows_from


def mc_advantage(case: Case) -> Built:
    """A group of trajectories with a reward per step; the result is one number per step, end to end."""
    steps, config = case["inputs"]["rewards"], case["config"]
    rows = rows_from([[1] * len(row) for row in steps], ["one"] * len(steps), token_level_rewards=steps)
    params = {
        "epsilon": 1e-6,
        "trajectory_return": config.get("trajectory_return"),
        **known(config, "grpo_size"),
    }
    flat = iter(case["expected"]["advantage"])
    wanted = [[next(flat) for _ in row] for row in steps]
    return Built(rows, {"convention": "grpo/torchrl", "params": params}, wanted)


def standardize_by_group(case: Case) -> Built:
    inputs = case["inputs"]
    rows = rows_from(lone_tokens(len(inputs["x"])), inputs["groups"], reward=inputs["x"])
    body = {"convention": "grpo/torchrl", "params": known(case["config"], "eps")}
    return Built(rows, body, case["expected"]["out"])


BUILDERS: dict[str, Builder] = {
    "torchrl.objectives.llm.grpo.MCAdvantage": mc_advantage,
    "torchrl.objectives.value.advantages._standardize_by_group": standardize_by_group,
}
