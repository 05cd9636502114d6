"""TRL: the PPO trainer of the 1.9 line."""

from tests.cases.build import Builder, Built, Case, rows_from


def ppo(case: Case) -> Built:
    """`sequence_lengths` is the place of the last token; rows are as wide as the padded responses."""
    inputs, expected = case["inputs"], case["expected"]
    width = len(inputs["values"][0])
    rows = rows_from(
        [[int(t <= last) for t in range(width)] for last in inputs["sequence_lengths"]],
        reward=inputs["scores"],
        values=inputs["values"],
        old_log_probs=inputs["logprobs"],
        ref_log_probs=inputs["ref_logprobs"],
    )
    body = {"convention": "gae/trl-ppo", "params": case["config"]}
    return Built(rows, body, expected["advantages"], expected["returns"], on_masked=True)


BUILDERS: dict[str, Builder] = {"trl.experimental.ppo.ppo_trainer.PPOTrainer.train": ppo}
