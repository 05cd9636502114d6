"""Seeded clean batches of all shapes: what a healthy run dumps, in every way that a dump may be incomplete.

`clean_rows(seed)` gives the header and the canonical rows of one step. Healthy means: groups of one size,
each with winners and losers (as after dynamic sampling, which filters the rest), prompts of ordinary
difficulty, lengths that have nothing to do with being right but for wrong answers running on a little, a
critic that is roughly right, log-probabilities of sampler and trainer that differ as after one stale
update, advantages by one of the common conventions, and masks that cover padding and tool output.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Random = np.random.Generator
Floats = NDArray[np.float64]
Row = dict[str, Any]

REWARDS = ("binary", "normal", "uniform", "graded", "negative", "signed")
SHAPES = ("tokens", "text", "numbers", "turns", "padded", "long")
#: Recorded advantages: how a group's rewards become them. None: not recorded.
CONVENTIONS: tuple[tuple[str, Callable[[Floats], Floats] | None], ...] = (
    ("none", None),
    ("grpo", lambda r: (r - r.mean()) / (r.std(ddof=1) + 1e-6)),
    ("grpo-trl", lambda r: (r - r.mean()) / (r.std(ddof=1) + 1e-4)),
    ("grpo-population", lambda r: (r - r.mean()) / (r.std() + 1e-8)),
    ("dr-grpo", lambda r: r - r.mean()),
    ("rloo", lambda r: (r - r.mean()) * r.size / (r.size - 1)),
    ("grpo-float32", lambda r: _float32((r - r.mean()) / (r.std(ddof=1) + 1e-6))),
)


@dataclass(frozen=True, slots=True)
class Plan:
    """What follows from the seed."""

    seed: int
    groups: int
    size: int
    rewards: str
    shape: str
    convention: str
    tasks: int
    values: bool
    log_probs: bool
    components: bool
    places: bool
    narrow: bool


def plan_of(seed: int) -> Plan:
    random = np.random.default_rng([seed, 1])
    shape = SHAPES[seed % len(SHAPES)]
    return Plan(
        seed=seed,
        groups=int(random.choice([2, 3] if shape == "long" else [2, 4, 6, 8, 12, 16])),
        size=int(random.integers(2, 7 if shape == "long" else 17)),
        rewards=REWARDS[(seed // len(SHAPES)) % len(REWARDS)],
        shape=shape,
        convention=CONVENTIONS[seed % len(CONVENTIONS)][0],
        tasks=int(random.integers(0, 4)),
        values=bool(random.random() < 0.4) and shape not in ("text", "numbers"),
        log_probs=bool(random.random() < 0.6) and shape not in ("text", "numbers"),
        components=bool(random.random() < 0.3),
        places=bool(random.random() < 0.5),
        narrow=bool(random.random() < 0.3),
    )


def clean_rows(seed: int) -> tuple[dict[str, Any], list[Row]]:
    """Header and canonical rows of a clean batch."""
    plan, random = plan_of(seed), np.random.default_rng([seed, 2])
    header: dict[str, Any] = {"schema": "rollout-batch", "version": 1, "group_size": plan.size}
    if plan.convention.startswith("grpo"):
        header["adv_estimator"] = "grpo"
    rows = [row for group in range(plan.groups) for row in _group(plan, group, random)]
    return header, rows


def _group(plan: Plan, number: int, random: Random) -> list[Row]:
    components = _components(random, plan.size) if plan.components else None
    rewards = _rewards(random, plan) if components is None else components @ np.array([1.0, 0.1])
    rewards = _float32(rewards) if plan.narrow else rewards
    advantages = _advantages(plan, rewards)
    right = rewards > np.median(rewards)
    rows = []
    for i in range(plan.size):
        row: Row = {"step": 1, "group_id": f"g{number}", "prompt": f"Question {number} of {plan.seed}?"}
        if plan.tasks:
            row["data_source"] = f"task-{number % plan.tasks}"
        row["reward"] = float(rewards[i])
        if components is not None:
            row["reward_components"] = {
                "accuracy": float(components[i, 0]),
                "format": float(components[i, 1]),
            }
        if plan.places:
            row |= {"sample_index": i, "rank": number % min(4, plan.groups), "finish_reason": "stop"}
        _response(plan, random, row, i, bool(right[i]), None if advantages is None else float(advantages[i]))
        rows.append(row)
    return rows


def _rewards(random: Random, plan: Plan) -> Floats:
    """Rewards of one group, never all equal: prompts that taught nothing were filtered."""
    usual = {"negative": 2.0, "uniform": 0.3, "graded": 0.3}.get(plan.rewards, 0.5)
    for _ in range(100):
        found = _drawn(random, plan.rewards, plan.size)
        # Of two continuous rewards some are close by chance; a filter with a tolerance drops those prompts.
        if found.std(ddof=1) > 0.25 * usual:
            return found
    raise AssertionError("no rewards that differ")


def _drawn(random: Random, kind: str, size: int) -> Floats:
    ease = random.uniform(0.25, 0.75)
    if kind in ("binary", "signed"):
        right = (random.random(size) < ease).astype(np.float64)
        return right if kind == "binary" else 2.0 * right - 1.0
    if kind == "graded":
        return np.asarray(random.binomial(4, ease, size) / 4.0)
    if kind == "normal":
        return random.normal(random.normal(0.3, 0.2), 1.0, size)
    return random.random(size) - 0.5 if kind == "uniform" else -np.abs(random.normal(5.0, 2.0, size))


def _components(random: Random, size: int) -> Floats:
    """Accuracy with winners and losers, and a format that most have right."""
    accuracy = (random.random(size) < 0.5).astype(float)
    accuracy[0], accuracy[1] = 1.0, 0.0
    return np.stack([accuracy, (random.random(size) < 0.85).astype(float)], axis=1)


def _advantages(plan: Plan, rewards: Floats) -> Floats | None:
    rule = dict(CONVENTIONS)[plan.convention]
    return None if rule is None else rule(rewards)


def _response(plan: Plan, random: Random, row: Row, i: int, right: bool, advantage: float | None) -> None:
    words = int(random.integers(4, 20))
    row["response"] = f"Answer {i}: " + " ".join(f"w{int(random.integers(0, 99999))}" for _ in range(words))
    if plan.shape in ("text", "numbers"):
        if plan.shape == "text":
            row["response"] = "yes" if right and i % 2 else f"{row['response']}."
        if advantage is not None:
            row["advantage"] = advantage
        return
    mask = _mask(plan, random, right)
    last = int(np.flatnonzero(mask)[-1])
    row["response_mask"] = mask
    row["response_ids"] = random.integers(5, 30_000, mask.size)
    scores = np.zeros(mask.size)
    scores[last] = row["reward"]
    row["token_level_scores"] = scores
    if advantage is not None:
        row["advantages"] = np.where(mask > 0, advantage, 0.0)
    if plan.log_probs:
        _log_probs(random, row, mask)
    if plan.values:
        expected = row["reward"] * np.linspace(0.2, 0.9, mask.size)
        row["values"] = np.where(mask > 0, expected + random.normal(0, 0.05, mask.size), 0.0)
    row["entropies"] = random.exponential(0.3, mask.size)
    if plan.shape in ("turns", "padded"):
        row["response_tokens"] = _texts(plan, mask, last)
        row["response"] = "".join(row["response_tokens"])


def _mask(plan: Plan, random: Random, right: bool) -> NDArray[np.uint8]:
    typical = {"long": 1200, "turns": 90}.get(plan.shape, 40)
    length = max(4, int(random.gamma(4.0, typical / 4) * (1.0 if right else 1.1)))
    mask = np.ones(length, dtype=np.uint8)
    if plan.shape == "turns":
        for turn in range(1, int(random.integers(2, 4))):
            start = turn * length // 4
            mask[start : start + max(1, length // 10)] = 0
    if plan.shape == "padded":
        mask = np.concatenate([mask, np.zeros(max(0, 160 - length), dtype=np.uint8)])
    return mask


def _log_probs(random: Random, row: Row, mask: NDArray[np.uint8]) -> None:
    """The sampler's, the trainer's after a stale update (KL about 5e-4), and a reference's."""
    sampler = -random.exponential(0.5, mask.size)
    drift = random.normal(0.0, 0.03, mask.size)
    for name, values in (
        ("rollout_log_probs", sampler),
        ("old_log_probs", np.minimum(sampler + drift - 0.5 * 0.03**2, 0.0)),
        ("ref_log_probs", np.minimum(sampler + 3 * drift - random.exponential(0.02, mask.size), 0.0)),
    ):
        row[name] = np.where(mask > 0, values, 0.0).astype(np.float32).astype(np.float64)


def _texts(plan: Plan, mask: NDArray[np.uint8], last: int) -> list[str]:
    words = [f" w{i}" if bit else f" obs{i}" for i, bit in enumerate(mask.tolist())]
    words[last] = "<|im_end|>"
    for i in range(last + 1, mask.size):
        words[i] = "<pad>" if plan.shape == "padded" else words[i]
    return words


def _float32(values: Floats) -> Floats:
    return values.astype(np.float32).astype(np.float64)
