"""ROLL: normalisation of rewards, by position, over the batch, or over all steps so far."""

from typing import Any

from tests.cases.build import Builder, Built, Case, Row, lone_tokens, rows_from


def reward_norm(case: Case) -> Built:
    inputs, config = case["inputs"], case["config"]
    if config["norm_mean_type"] == "running":
        return running(case)
    rewards = inputs["rewards"]
    rows = rows_from(lone_tokens(len(rewards)), None, reward=rewards)
    both_batch = config["norm_mean_type"] == config["norm_std_type"] == "batch"
    body = {"convention": "batch_z/roll" if both_batch else "grpo/roll", "params": dict(config)}
    return Built(rows, body, wanted(case))


def wanted(case: Case) -> list[float]:
    """With the batch's mean and the group's std ROLL gives every rollout a row of numbers, one for the std of
    each group: that of its own is what is meant."""
    out: list[Any] = case["expected"]["out"]
    if not isinstance(out[0], list):
        return out
    size = case["config"]["n_sample"]
    return [out[i // size][i] for i in range(len(case["inputs"]["rewards"]))]


def running(case: Case) -> Built:
    """A step per batch. Where moments are asked for by domain, the rollouts name theirs."""
    inputs = case["inputs"]
    batches = inputs.get("batches") or [inputs["rewards"]]
    domain = (inputs.get("running_ctrl_keys") or [None])[0]
    rows: list[Row] = []
    for step, rewards in enumerate(batches):
        sources = [domain] * len(rewards)
        made = rows_from(lone_tokens(len(rewards)), reward=rewards, data_source=sources)
        rows += [{**row, "step": step} for row in made]
    outs = case["expected"].get("outs")
    numbers = None if outs is None else [value for batch in outs for value in batch]
    return Built(rows, {"convention": "running/roll", "params": dict(case["config"])}, numbers)


BUILDERS: dict[str, Builder] = {"roll.utils.functionals.reward_norm": reward_norm}
