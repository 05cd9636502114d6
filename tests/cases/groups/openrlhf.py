"""OpenRLHF's estimators that compare the rollouts of a prompt; `tokens.openrlhf` chooses among all."""

from tests.cases.build import Built, Case, rows_from


def grouped(case: Case) -> Built:
    inputs, config, expected = case["inputs"], case["config"], case["expected"]
    size = config["n_samples_per_prompt"]
    group = [f"prompt {row // size}" for row in range(len(inputs["rewards"]))]
    rows = rows_from(inputs["action_mask"], group, reward=inputs["rewards"], kl=inputs["kl"])
    return Built(rows, {"estimator": "dr_grpo", "params": {"score": "reward"}}, expected["advantages"])
