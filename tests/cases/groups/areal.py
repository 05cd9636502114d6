"""AReaL: normalisation of rewards and of advantages, and the penalty for overlong responses."""

from typing import Any

from tests.cases.build import Builder, Built, Case, known, lone_tokens, rows_from


def normalization(case: Case) -> Built:
    return tokens(case) if case["inputs"].get("loss_mask") else rollouts(case)


def rollouts(case: Case) -> Built:
    rewards = case["inputs"]["x"]
    rows = rows_from(lone_tokens(len(rewards)), None, reward=rewards)
    config = case["config"]
    body = {"convention": "grpo/areal", "params": dict(config)}
    if config["mean_level"] == config["std_level"] == "batch":
        body["convention"] = "batch_z/areal"
    return Built(rows, body, case["expected"].get("out"))


def tokens(case: Case) -> Built:
    """What is normalised stands as rewards of tokens; with γ 0 they are their own advantages."""
    inputs, config = case["inputs"], case["config"]
    size = config["group_size"]
    group = [f"prompt {i // size}" for i in range(len(inputs["x"]))]
    rows = rows_from(inputs["loss_mask"], group, token_level_rewards=inputs["x"])
    whitening: dict[str, Any] = {
        "scope": config["std_level"],
        "ddof": 1 if config["std_unbiased"] else 0,
        "eps": config["eps"],
        "eps_placement": "added",
        "zero_masked": True,
    }
    if config["mean_level"] != config["std_level"]:
        whitening["mean_scope"] = config["mean_level"]
    body = {"convention": "reward_to_go", "params": {"gamma": 0.0}, "whitening": whitening}
    return Built(rows, body, case["expected"]["out"], on_masked=True)


def overlong(case: Case) -> Built:
    """Every rollout a group of its own that keeps its score."""
    inputs = case["inputs"]
    rows = rows_from([[1] * length for length in inputs["response_lengths"]], reward=inputs["rewards"])
    keys = ("overlong_tokens", "overlong_penalty_factor", "max_response_length")
    body = {"convention": "dr_grpo/verl", "params": known(case["config"], *keys)}
    return Built(rows, body, case["expected"]["rewards"])


BUILDERS: dict[str, Builder] = {
    "areal.utils.data.Normalization.__call__": normalization,
    "areal.utils.functional.functional.reward_overlong_penalty": overlong,
}
