"""OpenRLHF's estimators that compare the rollouts of a prompt; `tokens.openrlhf` chooses among all."""

from typing import Any

from tests.cases.build import Builder, Built, Case, known, rows_from

CONVENTIONS = {
    "group_norm": "grpo/openrlhf",
    "dr_grpo": "dr_grpo/openrlhf",
    "rloo": "rloo/openrlhf",
    "reinforce_baseline": "reinforce_plus_plus_baseline/openrlhf",
}
KEYS = ("estimator", "n_samples_per_prompt", "gamma", "lambd", "no_std_norm", "kl_coef", "reward_clip_range")


def grouped(case: Case) -> Built:
    inputs, config = case["inputs"], case["config"]
    rows = rows_from(inputs["action_mask"], None, reward=inputs["rewards"], kl=inputs["kl"])
    params = known(config, *KEYS)
    body: dict[str, Any] = {"convention": CONVENTIONS.get(config["estimator"]), "params": params}
    if config["estimator"] == "flash_reinforce":
        del params["estimator"], params["n_samples_per_prompt"]
        body["convention"] = "grpo/openrlhf"
        params |= {"mean_level": "batch", "norm_adv_by_std_in_grpo": False, "singleton": "zero"}
    expected = case["expected"]
    return Built(rows, body, expected.get("advantages"), expected.get("returns"))


def stop_properly(case: Case) -> list[Built]:
    """Every rollout a group of its own that keeps its score; a request for each of the two coefficients."""
    inputs, expected = case["inputs"], case["expected"]
    rows = rows_from(
        [[1]] * len(inputs["rewards"]),
        reward=inputs["rewards"],
        truncated=[bool(value) for value in inputs["truncated"]],
    )
    results = zip(case["config"]["coefs"], (expected["scaled"], expected["overridden"]), strict=True)
    return [
        Built(
            rows,
            {"convention": "dr_grpo/verl", "params": {"stop_properly_penalty_coef": coefficient}},
            wanted,
        )
        for coefficient, wanted in results
    ]


PENALTY = "openrlhf.trainer.ppo_utils.length_penalty"
BUILDERS: dict[str, Builder] = {f"{PENALTY}.apply_stop_properly_penalty": stop_properly}
