"""For every finding a batch, as canonical rows, that it fires on."""

from typing import Any

import numpy as np

from tests.findings.ingested import canonical

Row = dict[str, Any]
Example = tuple[dict[str, Any], list[Row]]  # header, rows

#: Diagnosis case -> findings that it fires.
CASES = {
    "01": ("masked_values_leak", "advantages_on_masked_tokens"),
    "03": ("reward_on_masked_token",),
    "05": ("values_misaligned",),
    "08": ("padding_trainable", "missing_eos", "truncated_rollouts"),
    "10": ("fully_masked_rollout_votes", "reward_past_end", "empty_response"),
    "13": ("interleaved_groups", "zero_variance_groups"),
    "15": ("epsilon_dominated", "outlier_advantages", "unequal_group_sizes"),
    "17": ("split_group",),
    "18": ("group_key_suspect",),
    "23": ("near_zero_variance_groups",),
    "24": ("precision_loss",),
    "25": ("nonfinite_values", "singleton_groups"),
    "27": ("shaping_noise",),
    "29": ("too_few_tokens_to_whiten",),
    "31": ("length_bias",),
    "33": ("loss_zero_despite_reward_spread",),
}


def rewarded(groups: list[list[float]], **columns: Any) -> list[Row]:
    """A row of four tokens for each reward. `columns`: name -> of the place in the batch, or for all."""
    rows: list[Row] = []
    for group, rewards in enumerate(groups):
        for reward in rewards:
            i = len(rows)
            row = {
                "step": 1, "group_id": f"g{group}", "prompt": f"question {group}", "response": f"answer {i}",
                "reward": reward, "response_ids": [10 + i, 11, 12, 13], "response_mask": [1, 1, 1, 1],
            }  # fmt: skip
            more = {name: value(i) if callable(value) else value for name, value in columns.items()}
            rows.append(row | {name: value for name, value in more.items() if value is not None})
    return rows


EASY = [0.9, 0.8, 0.85, 0.95, 0.7, 0.75, 0.8, 0.9]
HARD = [0.1, 0.2, 0.15, 0.05, 0.3, 0.25, 0.2, 0.1]
MIXED = [[1.0, 0.0, 1.0, 0.0], [0.0, 1.0, 0.0, 0.0]] * 3


def strided() -> list[Row]:
    """Recorded advantages of pairs of rows, in groups of four."""
    flat = np.array(MIXED).ravel() + np.arange(24) / 100
    pairs = flat.reshape(-1, 2)
    made = (pairs - pairs.mean(1, keepdims=True)) / (pairs.std(1, ddof=1, keepdims=True) + 1e-6)
    groups = flat.reshape(-1, 4).tolist()
    return rewarded(groups, advantage=lambda i: float(made.ravel()[i]))


def moved() -> list[Row]:
    """Recorded advantages of which every second group's are moved by as much as is between its rewards."""
    away = [np.array(group) - np.mean(group) for group in MIXED]
    made = np.concatenate([each + number % 2 for number, each in enumerate(away)])
    return rewarded(MIXED, advantage=lambda i: float(made[i]))


def without_critic() -> list[Row]:
    """Recorded advantages of a critic whose values are not in the file."""
    random = np.random.default_rng(5)
    return rewarded(MIXED, advantages=lambda i: random.normal(0, 1, 4).tolist())


def leaking_kl() -> list[Row]:
    random, mask = np.random.default_rng(0), np.array([1, 1, 1, 0, 0, 1, 1, 1])
    rows = rewarded(MIXED[:2])
    for i, row in enumerate(rows):
        kl = random.exponential(0.1, 8)
        score = np.array([0.0] * 7 + [float(i % 2)])
        row |= {"response_mask": mask.tolist(), "response_ids": list(range(8)), "kl": kl.tolist()}
        row |= {"token_level_scores": score.tolist(), "token_level_rewards": (score - 0.05 * kl).tolist()}
    return rows


def segments() -> list[Row]:
    rows = rewarded([[1.0, 1.0, 1.0, 0.0, 0.0], [1.0, 0.0]])
    for row, owner, segment in zip(rows, "aaabcde", (0, 1, 2, 0, 0, 0, 0), strict=True):
        row |= {"rollout_id": owner, "segment": segment}
    return rows


def log_probs(values: list[float], others: list[float] | None = None) -> list[Row]:
    random = np.random.default_rng(3)

    def near(base: list[float]) -> Any:
        return lambda i: (np.array(base) + random.normal(0, 0.01, 4)).tolist()

    more = {} if others is None else {"rollout_log_probs": near(others)}
    return rewarded(MIXED, old_log_probs=near(values), **more)


def components(format_weight: float, copies: bool = False) -> list[Row]:
    """Correctness and style; style swamps it, or both always sum to the same."""
    rows = rewarded(MIXED)
    for i, row in enumerate(rows):
        correct, style = row["reward"], format_weight * ((i * 7) % 5 - 2)
        style = 1.0 - correct if copies else style
        row |= {"reward_components": {"correct": correct, "style": style}, "reward": correct + style}
    return rows


def left_out() -> list[Row]:
    """A bonus for the first turn that is in the reward and on no token."""
    rows = rewarded(MIXED)
    for row in rows:
        row["token_level_rewards"] = [0.0, 0.0, 0.0, row["reward"]]
        row["reward"] += 0.2
    return rows


def turns_apart() -> list[Row]:
    """Two turns around a tool's token; the sampler's log-probs of the second are of something else."""
    rows = rewarded(MIXED)
    random = np.random.default_rng(4)
    for row in rows:
        mask = np.array([1, 1, 1, 0, 1, 1, 1])
        sampler = -random.exponential(1.0, 7)
        row |= {"response_mask": mask.tolist(), "response_ids": list(range(7))}
        row |= {"rollout_log_probs": sampler.tolist()}
        gap = random.normal(0, 0.01, 7) + np.array([0, 0, 0, 0, 1, 1, 1]) * random.normal(0, 0.5, 7)
        row["old_log_probs"] = np.minimum(sampler + gap, 0.0).tolist()
    return rows


def one_or_both() -> list[Row]:
    """Pairs that differ in the style alone, and pairs that differ in correctness and style."""
    rows = rewarded([[1.0, 0.0], [2.0, 0.0]] * 3)
    for row in rows:
        parts = {"correct": float(row["reward"] == 2.0), "style": float(row["reward"] > 0.0)}
        row["reward_components"] = parts
    return rows


def ratios(gap: Any, ended: bool = False) -> list[Row]:
    """The sampler's log-probs are lower by `gap`; the trainer's are 0 at the end, if `ended`."""
    rows = rewarded(MIXED)
    random = np.random.default_rng(5)
    for i, row in enumerate(rows):
        old = -random.exponential(0.5, 4) - 0.2
        row["rollout_log_probs"] = (old + random.normal(0, 0.01, 4) - gap(i)).tolist()
        row["old_log_probs"] = [*old[:3].tolist(), 0.0] if ended else old.tolist()
    return rows


OWN: dict[str, Example] = {
    "positive_log_probs": ({}, log_probs([0.5, 1.0, 0.25, 2.0])),
    "log_prob_offset": ({}, log_probs([-1.0, -2.0, -0.5, -3.0], [-1.7, -2.7, -1.2, -3.7])),
    "log_prob_length_mismatch": (
        {}, rewarded(MIXED, old_log_probs=lambda i: [-1.0] * (5 if i % 3 == 0 else 4))
    ),
    "mask_length_mismatch": ({}, rewarded(MIXED, response_mask=lambda i: [1] * (3 if i % 6 == 0 else 4))),
    "recorded_advantages_disagree": ({"framework": "verl", "adv_estimator": "grpo"}, strided()),
    "recorded_advantages_unchecked": ({"framework": "verl", "adv_estimator": "gae"}, without_critic()),
    "group_sum_not_zero": ({"framework": "verl", "adv_estimator": "grpo"}, moved()),
    "sign_flips": ({}, rewarded([EASY, HARD] * 4)),
    "task_offset": (
        {},
        rewarded(
            [[1.0, 1.0, 0.0, 0.0], [0.25, 0.25, 0.25, 0.0]] * 3,
            data_source=lambda i: "proof" if i % 8 < 4 else "recall",
        ),
    ),
    "masked_kl_leaks": ({}, leaking_kl()),
    "repeated_rollout_segments": ({}, segments()),
    "duplicate_rollouts": (
        {},
        rewarded(
            [[1.0, 1.0, 0.0, 0.0]] * 2,
            response=lambda i: f"The mill grinds the corn of field {i // 2}, and the corn becomes bread.",
            response_ids=lambda i: list(range(20 + 40 * (i // 2), 60 + 40 * (i // 2))),
            response_mask=[1] * 40,
        ),
    ),
    "reward_component_dominates": ({}, components(10.0)),
    "reward_component_collapse": ({}, components(0.0, copies=True)),
    "kl_in_reward_and_loss": (
        {"use_kl_in_reward": True, "kl_coef": 0.01, "use_kl_loss": True, "kl_loss_coef": 0.001},
        rewarded(MIXED),
    ),
    "component_scale_lost": ({"framework": "verl", "adv_estimator": "grpo"}, one_or_both()),
    "log_ratio_outliers": ({}, ratios(lambda i: np.array([0.0, 0.0, 0.0, 4.0 if i == 5 else 0.0]))),
    "placeholder_log_probs": ({}, ratios(lambda i: np.zeros(4), ended=True)),
    "log_prob_gap_in_turn": ({}, turns_apart()),
    "reward_sum_mismatch": ({}, left_out()),
    "missing_shards": ({}, rewarded(MIXED, rank=lambda i: (0, 1, 3)[i % 3])),
}  # fmt: skip


def examples() -> dict[str, Example]:
    """Finding -> header and rows of a batch that it fires on."""
    found: dict[str, Example] = {}
    for number, codes in CASES.items():
        found |= dict.fromkeys(codes, ({}, canonical(number)))
    return found | OWN
