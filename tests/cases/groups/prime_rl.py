"""prime-rl: one list of rewards per group."""

from typing import Any

from tests.cases.build import Builder, Built, Case, known, lone_tokens, rows_from

WEIGHTS = ("num_output_tokens_weight", "num_input_tokens_weight", "num_turns_weight")


def flat(groups: list[list[float]]) -> tuple[list[str], list[float]]:
    """The group of each rollout, and its number."""
    return [f"group {g}" for g, row in enumerate(groups) for _ in row], [x for row in groups for x in row]


def score_group(convention: str) -> Builder:
    def build(case: Case) -> Built:
        inputs = case["inputs"]
        group, rewards = flat(inputs["groups"])
        mask: list[list[int]] = lone_tokens(len(rewards))
        more: dict[str, Any] = {}
        if "out" in inputs:
            mask, more["prompt_ids"] = lengths(inputs)
        rows = rows_from(mask, group, reward=rewards, **more)
        body = {"convention": convention, "params": known(case["config"], "algo", *WEIGHTS)}
        return Built(rows, body, flat(case["expected"]["advantages"])[1])

    return build


def lengths(inputs: Case) -> tuple[list[list[int]], list[list[int]]]:
    """Masks with so many turns, one masked token between two of them, and the prompts' ids."""
    masks, prompts = [], []
    for output, total, turns in zip(inputs["out"], inputs["tot"], inputs["turns"], strict=True):
        mask = [1]
        for _ in range(turns - 1):
            mask += [0, 1]
        masks.append(mask + [1] * (output - turns))
        prompts.append(list(range(total - output - (turns - 1))))
    return masks, prompts


ALGORITHM = "prime_rl.orchestrator.algo"
BUILDERS: dict[str, Builder] = {
    f"{ALGORITHM}.GRPOAlgorithm.score_group": score_group("dr_grpo/prime-rl"),
    f"{ALGORITHM}.MaxRLAlgorithm.score_group": score_group("maxrl/prime-rl"),
}
