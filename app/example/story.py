"""The example run: 24 steps × 16 prompts × 8 responses that get better, until they do not.

Up to step 15 the policy learns all three tasks. Then it finds the format reward cheaper than the work:
arithmetic collapses to guesses in the right format, code goes round in circles until the length limit, and
only lookup stays good. Groups without spread multiply, and one task ends up below the batch mean altogether.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.random import Generator

from app.example import signals, wording

STEPS, PROMPTS, RESPONSES = 24, 16, 8
TURN = 16  # the step at which it goes wrong
SEED = 20_260
MAKERS = (wording.arithmetic, wording.code, wording.lookup)
POOL = 18  # problems of each task
WEIGHTS = {"correct": 0.75, "format": 0.25}


def problems() -> list[list[tuple[wording.Problem, float]]]:
    """Per task: the problems, each with its difficulty (in logits)."""
    rng = np.random.default_rng(SEED)
    return [[(make(i, rng), float(rng.normal(0.0, 1.1))) for i in range(POOL)] for make in MAKERS]


def damage(step: int) -> float:
    """How far it has gone wrong, from 0 to 1."""
    return float(np.clip((step - TURN + 1) / 4.0, 0.0, 1.0))


def chance(step: int, difficulty: float) -> float:
    """Probability that an undamaged policy gets a problem right at this step."""
    skill = -0.9 + 0.17 * min(step, TURN + 2)
    return float(1.0 / (1.0 + np.exp(difficulty - skill)))


def outcome(task: str, step: int, difficulty: float, rng: Generator) -> wording.Outcome:
    harm = damage(step)
    looping = bool(rng.random() < {"arithmetic": 0.0, "code": 0.9 * harm, "lookup": 0.03}[task])
    collapsed = bool(task == "arithmetic" and rng.random() < harm)
    able = chance(step, difficulty) * (1.0 - harm if task == "code" else 1.0)
    right = bool(rng.random() < (0.03 if collapsed else able))
    quality = 1.0 if right else 0.0
    if task == "code" and not right:
        quality = float(rng.integers(0, 5 - int(3 * harm))) / 8.0  # some of the eight tests pass
    if looping:
        quality = 0.0
    formatted = not looping and bool(collapsed or rng.random() < 0.45 + 0.035 * min(step, TURN - 1))
    thoughts = int(np.clip(rng.poisson(1.0 + 0.12 * step), 0, 6))
    return wording.Outcome(quality, formatted, thoughts, collapsed, looping)


def row(problem: wording.Problem, difficulty: float, step: int, index: int, rng: Generator) -> dict[str, Any]:
    """One canonical row, without its advantages."""
    plan = outcome(problem.task, step, difficulty, rng)
    tokens, mask_list, cut = signals.tokens_of(problem.write(plan, rng))
    mask = np.array(mask_list, dtype=np.uint8)
    components = {"correct": plan.quality, "format": float(plan.formatted)}
    reward = sum(WEIGHTS[name] * value for name, value in components.items())
    # The critic expects what was usual three steps ago.
    prior = 0.75 * chance(max(step - 3, 0), difficulty) + 0.2
    heat = 1.5 if plan.looping else 0.15 if plan.collapsed else 0.9 - 0.02 * min(step, TURN)
    return {
        "step": step,
        "split": "train",
        "group_id": problem.key,
        "sample_index": index,
        "sample_id": f"{step}-{problem.key}-{index}",
        "data_source": problem.task,
        "prompt": problem.prompt,
        "response": "".join(tokens),
        "response_ids": [signals.token_id(token) for token in tokens],
        "response_tokens": tokens,
        "response_mask": mask_list,
        "reward": reward,
        "reward_components": components,
        "ground_truth": problem.answer,
        "finish_reason": "length" if cut else "stop",
        "truncated": cut,
        "policy_version": step,
        "token_level_rewards": signals.reward_tokens(mask, reward),
        "values": signals.critic(mask, prior, reward, rng),
        **signals.log_probs(mask, heat, 0.02 + 0.012 * step + 0.5 * damage(step) * plan.looping, rng),
    }


def rows(step: int) -> Iterator[dict[str, Any]]:
    """The canonical rows of one step, group after group."""
    rng = np.random.default_rng([SEED, step])
    pool = problems()
    share = (6, 5, 5)  # prompts of arithmetic, code and lookup
    for task, count in zip(pool, share, strict=True):
        for number in sorted(rng.choice(POOL, size=count, replace=False)):
            problem, difficulty = task[number]
            group = [row(problem, difficulty, step, i, rng) for i in range(RESPONSES)]
            signals.record_advantages(group)
            yield from group


HEADER = {
    "schema": "rollout-batch",
    "version": 1,
    "framework": "vantage-example",
    "run": "example",
    "adv_estimator": "grpo",
    "norm_adv_by_std_in_grpo": True,
    "gamma": 1.0,
    "lam": 0.95,
    "group_size": RESPONSES,
    "reward_weights": WEIGHTS,
    "eos_token_id": signals.END_ID,
    "provenance": {"note": "made by a seeded script; no model wrote this"},
}
