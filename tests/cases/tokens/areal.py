"""AReaL: the advantages of the PPO actor, on sequences shifted left by one."""

from typing import Any

from tests.cases.build import Builder, Built, Case, rows_from


def compute_advantages(case: Case) -> Built:
    """Position t of a shifted sequence is the choice of token t + 1, so a sequence of n tokens has n − 1.

    `logprobs` are of the token at their position, `ref_logp` of the one after it.
    """
    inputs, expected, config = case["inputs"], case["expected"], case["config"]
    width = len(inputs["loss_mask"][0])
    sizes = [int(sum(row)) for row in inputs["attention_mask"]]

    def shifted(rows: list[list[Any]], by: int = 0) -> list[list[Any]]:
        return [row[by : size - 1 + by] for row, size in zip(rows, sizes, strict=True)]

    values = inputs["values"] or [[0.0] * width for _ in sizes]
    size = (config.get("reward_norm") or {}).get("group_size", 1)
    rows = rows_from(
        shifted(inputs["loss_mask"], by=1),
        [f"group {i // size}" for i in range(len(sizes))],
        reward=inputs["rewards"],
        values=shifted(values),
        old_log_probs=shifted(inputs["logprobs"], by=1),
        ref_log_probs=shifted(inputs["ref_logp"]),
        truncated=[size == width for size in sizes],
        bootstrap_value=[row[-1] for row in values],
    )
    body = {"convention": "gae/areal", "params": config}
    return Built(rows, body, shifted(expected["advantages"]), shifted(expected["returns"]), on_masked=True)


BUILDERS: dict[str, Builder] = {"areal.trainer.ppo.actor.PPOActor._compute_advantages": compute_advantages}
