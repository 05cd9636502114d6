"""Batches at the edge of making sense: of one rollout, without tokens, all masked, not finite, all alike."""

import random
from collections.abc import Callable
from typing import Any

from app.ingest.record import TOKEN_FIELDS

Row = dict[str, Any]

NAN, INF = float("nan"), float("inf")
ODD = (0.0, -0.0, 1.0, -1.0, 1e-8, 1e-310, 1e16, 1e160, -1e160, 1e308, -1e308, NAN, INF, -INF, 100.1, 0.1)
HUGE = (1e308, -1e308, 1e300)
SIZES: tuple[Callable[[random.Random], list[int]], ...] = (
    lambda draw: [1],
    lambda draw: [1] * draw.randint(2, 5),
    lambda draw: [2] * draw.randint(1, 4),
    lambda draw: [draw.randint(1, 5) for _ in range(draw.randint(1, 5))],
    lambda draw: [4] * draw.randint(1, 8),
    lambda draw: [draw.randint(8, 20)],
)
NUMBERS: tuple[Callable[[random.Random], float], ...] = (
    lambda draw: 0.0,
    lambda draw: 0.5,
    lambda draw: NAN,
    lambda draw: draw.choice((INF, -INF)),
    lambda draw: draw.choice(HUGE),
    lambda draw: draw.choice(ODD),
    lambda draw: draw.gauss(0, 1),
    lambda draw: -abs(draw.gauss(0, 1)),
)
LENGTHS: tuple[Callable[[random.Random], int], ...] = (
    lambda draw: 4,
    lambda draw: 0,
    lambda draw: 1,
    lambda draw: draw.choice((0, 3)),
    lambda draw: draw.randint(1, 9),
)
MASKS: tuple[Callable[[random.Random], int], ...] = (
    lambda draw: 1,
    lambda draw: 0,
    lambda draw: draw.randint(0, 1),
)
COMPONENTS: tuple[Callable[[random.Random, int], dict[str, float]], ...] = (
    lambda draw, i: {"correct": float(draw.random() < 0.5), "format": float(draw.random() < 0.5)},
    lambda draw, i: {"correct": float(i % 2), "format": 1.0 - i % 2},
    lambda draw, i: {"correct": 1.0, "format": 0.0},
    lambda draw, i: {"correct": 1.0},
    lambda draw, i: {"correct": float(i % 2), "format": draw.choice(ODD)},
    lambda draw, i: {"correct": float(i % 2), "format": 1.0, "third": draw.choice(ODD)},
)
HEADERS: tuple[dict[str, Any], ...] = (
    {},
    {"framework": "verl", "adv_estimator": "grpo"},
    {"framework": "verl", "adv_estimator": "gae", "gamma": 1.0, "lam": 0.95},
    {"framework": "verl", "adv_estimator": "rloo"},
    {"framework": "verl", "adv_estimator": "gdpo"},
    {"framework": "verl", "adv_estimator": "grpo", "norm_adv_by_std_in_grpo": False, "kl_coef": 0.1},
    {"framework": "trl", "adv_estimator": "grpo"},
    {"framework": "openrlhf", "adv_estimator": "reinforce"},
    {"num_generations": 4, "pad_token_id": 0, "eos_token_id": 1},
)
MORE: dict[str, Callable[[random.Random], Any]] = {
    "advantage": lambda draw: draw.choice(ODD),
    "data_source": lambda draw: draw.choice(("math", "code")),
    "finish_reason": lambda draw: draw.choice(("length", "stop")),
    "micro_batch": lambda draw: draw.randint(0, 2),
    "rank": lambda draw: draw.randint(0, 2),
    "rollout_id": lambda draw: f"r{draw.randint(0, 3)}",
    "segment": lambda draw: draw.randint(0, 2),
    "truncated": lambda draw: draw.random() < 0.5,
}
VALUES = tuple(name for name in TOKEN_FIELDS if name not in ("response_ids", "response_mask"))


def drawn(seed: int) -> tuple[dict[str, Any], list[Row]]:
    """Header and canonical rows of a batch that a seed draws."""
    draw = random.Random(seed)
    length, mask = draw.choice(LENGTHS), draw.choice((None, *MASKS))
    tokens = {name: draw.choice(NUMBERS) for name in draw.sample(VALUES, draw.randint(0, len(VALUES)))}
    reward = draw.choice((None, lambda draw: float(draw.random() < 0.5), *NUMBERS))
    components, some = draw.choice((None, None, *COMPONENTS)), draw.choice((0.5, 1.0, 1.0))
    more = {name: MORE[name] for name in draw.sample(sorted(MORE), draw.randint(0, 4))}
    rows: list[Row] = []
    for number, size in enumerate(draw.choice(SIZES)(draw)):
        for _ in range(size):
            n = length(draw)
            row: Row = {"group_id": f"g{number}", "prompt": f"p{number}", "response": f"answer {len(rows)}"}
            row |= {"response_ids": [draw.randint(0, 3) for _ in range(n)]}
            row |= {"response_mask": [mask(draw) for _ in range(n)]} if mask else {}
            row |= {name: [value(draw) for _ in range(n)] for name, value in tokens.items()}
            row |= {"reward": reward(draw)} if reward and draw.random() < some else {}
            if components and draw.random() < some:
                row |= {"reward_components": components(draw, len(rows))}
            rows.append(row | {name: value(draw) for name, value in more.items()})
    return dict(draw.choice(HEADERS)), rows
