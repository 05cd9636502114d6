"""Seeded clean batches of more shapes than `clean` has: every convention's own recorded advantages, critics,
singletons, large and uneven groups, several tasks, lengths with a long tail, some truncation, rounded tables.

`wide_rows(seed)` gives header, canonical rows and what may be said of them all the same, which is true.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from estimators import CONVENTIONS, Refused, Request, estimate
from estimators.estimate import missing
from tests.cases.build import batch_from

Random = np.random.Generator
Floats = NDArray[np.float64]
Row = dict[str, Any]

REWARDS = ("binary", "percent", "negative", "normal", "steps", "product", "judge")
SIZES = ("usual", "pairs", "large", "uneven", "alone")
TOKENS = ("tail", "turns", "texts", "ends on observation", "cut off")
NAMES = ("g0", "uuid", "path", "number")
DIGITS = (None, None, "float32", 6, 4)
#: Rewards that an estimator makes something of: MaxRL divides by their mean, pass@k needs one best.
FITTING = {"maxrl": ("binary", "percent", "steps"), "grpo_passk": ("normal", "negative", "percent")}


@dataclass(frozen=True, slots=True)
class Shape:
    """What follows from the seed."""

    rewards: str
    sizes: tuple[int, ...]
    tokens: str
    name: str
    digits: str | int | None
    convention: str | None
    tasks: int


def shape_of(seed: int) -> Shape:
    random = np.random.default_rng([seed, 11])
    names = list(CONVENTIONS)
    convention = None if seed % 4 == 3 else names[(seed // 4 * 3 + seed % 4) % len(names)]
    sizes = _sizes(random, SIZES[seed % len(SIZES)])
    rewards = REWARDS[seed % len(REWARDS)]
    estimator = (convention or "").partition("/")[0]
    if estimator in FITTING and rewards not in FITTING[estimator]:
        rewards = FITTING[estimator][0]
    return Shape(
        rewards, sizes, TOKENS[(seed // 2) % len(TOKENS)], NAMES[seed % len(NAMES)],
        DIGITS[(seed // 3) % len(DIGITS)], convention, int(random.integers(0, 4)),
    )  # fmt: skip


def _sizes(random: Random, kind: str) -> tuple[int, ...]:
    if kind == "large":
        return (int(random.choice([64, 128])),) * int(random.integers(2, 4))
    if kind == "uneven":
        return tuple(int(size) for size in random.permutation([8] * int(random.integers(4, 9)) + [7, 6]))
    size = {"pairs": 2, "alone": 1}.get(kind, int(random.integers(4, 17)))
    return (size,) * int(random.integers(16 if size == 1 else 6, 25))


def wide_rows(seed: int) -> tuple[dict[str, Any], list[Row], set[str]]:
    """Header, rows, and the findings that are true of them."""
    shape, random = shape_of(seed), np.random.default_rng([seed, 12])
    rows = [row for group in range(len(shape.sizes)) for row in _group(shape, group, random)]
    header: dict[str, Any] = {}
    alone = max(shape.sizes) == 1
    made = _recorded(shape, rows)
    if made is not None:
        header |= {"framework": made.partition("/")[2].partition("-")[0], "adv_estimator": _estimator(made)}
    elif alone:
        header |= {"adv_estimator": "gae"}
    allowed = {"unequal_group_sizes"} if len(set(shape.sizes)) > 1 else set()
    return header, rows, allowed


def _estimator(convention: str) -> str:
    return convention.partition("/")[0]


def _recorded(shape: Shape, rows: list[Row]) -> str | None:
    """Put the advantages of the shape's convention into the rows, where it takes such a batch."""
    if shape.convention is None or (max(shape.sizes) == 1 and not shape.convention.startswith("gae")):
        return None
    batch, request = batch_from(rows), Request.from_dict({"convention": shape.convention})
    if missing(batch, request):
        return None
    try:
        made = estimate(batch, request)
    except Refused:
        return None
    values = made.advantages.double().numpy()
    if made.per_token:
        values = np.where(batch.response_mask.numpy(), np.nan_to_num(values), 0.0)
    values = _narrowed(values, shape.digits)
    if not np.isfinite(values).all():
        return None
    ends = batch.offsets.tolist()
    for i, row in enumerate(rows):
        if made.per_token:
            row["advantages"] = values[ends[i] : ends[i + 1]].tolist()
        else:
            row["advantage"] = float(values[i])
    return shape.convention


def _narrowed(values: Floats, digits: str | int | None) -> Floats:
    if digits == "float32":
        return values.astype(np.float32).astype(np.float64)
    return values if digits is None else np.round(values, int(digits))


def _group(shape: Shape, number: int, random: Random) -> list[Row]:
    size = shape.sizes[number]
    rewards = _rewards(random, shape.rewards, size)
    name = _name(shape.name, number, random)
    rows = []
    for i in range(size):
        row: Row = {"step": 3, "group_id": name, "prompt": f"Task {number}: what is {number} + {number}?"}
        if shape.tasks > 1:
            row["data_source"] = ("gsm8k", "apps", "search")[number % shape.tasks]
        row["reward"] = float(np.float32(rewards[i]) if shape.digits == "float32" else rewards[i])
        _response(shape, random, row, f"{number}.{i}")
        rows.append(row)
    return rows


def _name(kind: str, number: int, random: Random) -> str:
    made = {"g0": f"g{number}", "path": f"train/math/{number:05d}.json", "number": str(10_000 + 7 * number)}
    return made.get(kind) or f"{random.integers(1 << 60):015x}-{number}"


def _rewards(random: Random, kind: str, size: int) -> Floats:
    for _ in range(1000):
        found = _drawn(random, kind, size)
        if size == 1 or found.std(ddof=1) > 0.2 * _usual(kind):
            return found
    raise AssertionError("no rewards that differ")


def _usual(kind: str) -> float:
    return {"percent": 20.0, "negative": 30.0, "normal": 1.0, "judge": 2.0}.get(kind, 0.4)


def _drawn(random: Random, kind: str, size: int) -> Floats:
    ease = random.uniform(0.3, 0.7)
    right = (random.random(size) < ease).astype(np.float64)
    if kind == "binary":
        return right
    if kind == "percent":
        return np.round(100 * random.beta(2, 2, size), 1)
    if kind == "negative":
        return -random.gamma(2.0, 20.0, size)
    if kind == "normal":
        return random.normal(0.0, 1.0, size)
    if kind == "steps":
        return np.asarray(random.binomial(10, ease, size) / 10)
    if kind == "product":
        return right * random.uniform(0.6, 1.0, size)
    return np.asarray(random.integers(1, 11, size), dtype=np.float64)


def _response(shape: Shape, random: Random, row: Row, name: str) -> None:
    if shape.tokens == "texts":
        row["response"] = f"Answer {name}: " + " ".join(f"w{n}" for n in random.integers(0, 99_999, 12))
        row["response_mask"] = [1] * 14
        return
    length = int(np.clip(random.lognormal(3.2, 1.0 if shape.tokens == "tail" else 0.4), 6, 1500))
    mask = np.ones(length, dtype=np.uint8)
    if shape.tokens in ("turns", "ends on observation"):
        mask[length // 3 : length // 3 + max(1, length // 8)] = 0
    if shape.tokens == "ends on observation":
        mask[-2:] = 0
    last = int(np.flatnonzero(mask)[-1])
    given = np.zeros(length)
    given[last] = row["reward"]
    cut = shape.tokens == "cut off" and random.random() < 0.06
    row |= {"finish_reason": "length" if cut else "stop", "truncated": cut}
    row |= {"response_mask": mask.tolist(), "response_ids": random.integers(5, 30_000, length).tolist()}
    row["token_level_rewards"] = given.tolist()
    values = row["reward"] * np.linspace(0.3, 0.9, length)
    values = values + random.normal(0, 0.05, length) * max(1.0, abs(row["reward"]))
    row["values"] = np.where(mask > 0, values, 0.0).tolist()
    _log_probs(random, row, mask)


def _log_probs(random: Random, row: Row, mask: NDArray[np.uint8]) -> None:
    old = -random.exponential(0.4, mask.size)
    for name, by in (("old_log_probs", 0.0), ("rollout_log_probs", 0.01), ("ref_log_probs", 0.05)):
        drawn = np.minimum(old + random.normal(0, by, mask.size), 0.0) if by else old
        row[name] = np.where(mask > 0, drawn, 0.0).tolist()
