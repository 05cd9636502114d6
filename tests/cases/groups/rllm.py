"""rLLM: one list of rewards per group."""

from tests.cases.build import Builder, Built, Case, lone_tokens, rows_from
from tests.cases.groups.prime_rl import flat


def calculate(convention: str) -> Builder:
    def build(case: Case) -> Built:
        group, rewards = flat(case["inputs"]["groups"])
        rows = rows_from(lone_tokens(len(rewards)), group, reward=rewards)
        body = {"convention": convention, "params": dict(case["config"])}
        return Built(rows, body, flat(case["expected"]["advantages"])[1])

    return build


ADVANTAGE = "rllm.trainer.algorithms.advantage"
BUILDERS: dict[str, Builder] = {
    f"{ADVANTAGE}.calculate_grpo_advantages": calculate("grpo/rllm"),
    f"{ADVANTAGE}.calculate_prpo_advantages": calculate("batch_z/rllm"),
    f"{ADVANTAGE}.calculate_rloo_advantages": calculate("rloo/rllm"),
    f"{ADVANTAGE}.calculate_reinforce_plus_plus_baseline_advantages": calculate(
        "reinforce_plus_plus_baseline/rllm"
    ),
}
