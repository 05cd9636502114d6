"""Recursions over tokens again, slow and obvious: one token after the other, over Python floats."""

import math
from collections.abc import Hashable, Sequence

Floats = Sequence[float]
Mask = Sequence[bool]


def gae(
    rewards: Floats, values: Floats, mask: Mask, gamma: float, lam: float, rule: str, after: float = 0.0
) -> tuple[list[float], list[float]]:
    """(advantages, returns) of one rollout of finite numbers; `after` is the value behind the last token that
    takes part. `rule` as `masked_tokens` of the estimator."""
    last = max((t for t in range(len(mask)) if mask[t]), default=-1)
    r, v = list(rewards), list(values)
    for t in range(len(mask)):
        beyond = t > last + 1 or last < 0
        if (rule == "zero" and not mask[t]) or (rule == "one_behind" and beyond):
            r[t] = v[t] = 0.0
    advantages = [0.0] * len(mask)
    next_value, running = after, 0.0
    for t in reversed(range(len(mask))):
        if rule == "skip" and not mask[t]:
            advantages[t] = running
            continue
        if rule == "cut" and not mask[t]:
            next_value = running = 0.0
        running = r[t] + gamma * next_value - v[t] + gamma * lam * running
        next_value = v[t]
        advantages[t] = running
    return advantages, [a + x for a, x in zip(advantages, v, strict=True)]


def to_go(rewards: Floats, mask: Mask, gamma: float, rule: str) -> list[float]:
    """Discounted sum of the rewards at and after each token. NaN from one that is not finite back."""
    found, running = [0.0] * len(mask), 0.0
    for t in reversed(range(len(mask))):
        if rule == "skip" and not mask[t]:
            found[t] = running
            continue
        reward = rewards[t] if mask[t] or rule != "zero" else 0.0
        running = (reward if math.isfinite(reward) else math.nan) + gamma * running
        if math.isnan(reward) or math.isinf(reward):
            running = math.nan
        found[t] = running
        if rule == "reset" and not mask[t]:
            running = 0.0
    return found


def remax(rewards: Floats, mask: Mask, baseline: float) -> tuple[list[float], list[float]]:
    """(advantages, returns) of one rollout."""
    returns = [
        math.fsum(r for r, m in zip(rewards[t:], mask[t:], strict=True) if m) for t in range(len(mask))
    ]
    return [g - baseline * m for g, m in zip(returns, mask, strict=True)], returns


def token_baseline(
    rewards: Sequence[Floats],
    masks: Sequence[Mask],
    groups: Sequence[Hashable],
    energies: Sequence[Floats],
    *,
    unmasked_only: bool,
    zero_tail: bool,
    eps: float = 1e-8,
) -> list[list[float]]:
    """G less the baseline of the token's column, 0 on masked tokens."""
    everyone = range(len(rewards))
    count = [sum(mask) for mask in masks]
    returns = [remax(rewards[i], masks[i], 0.0)[1] for i in everyone]
    # Column -> (return, weight) of each rollout's unmasked tokens.
    columns: list[dict[int, tuple[float, float]]] = []
    for i in everyone:
        own: dict[int, tuple[float, float]] = {}
        weight = 0.0
        for t, unmasked in enumerate(masks[i]):
            if unmasked:
                weight += energies[i][t]
                own[len(own) if unmasked_only else t] = (returns[i][t], weight)
        columns.append(own)
    found = []
    for i in everyone:
        members = [j for j in everyone if groups[j] == groups[i] and (count[j] or not unmasked_only)]
        others = [count[j] for j in members if j != i]
        tail = max(others) if others and count[i] > max(others) and zero_tail else None
        row, number = [], 0
        for t, unmasked in enumerate(masks[i]):
            if not unmasked:
                row.append(0.0)
                continue
            column = number if unmasked_only else t
            number += 1
            there = [columns[j][column] for j in members if column in columns[j]]
            baseline = math.fsum(g * w for g, w in there) / (math.fsum(w for _, w in there) + eps)
            if not others or (tail is not None and column >= tail):
                baseline = 0.0
            row.append(returns[i][t] - baseline)
        found.append(row)
    return found


def kl(log_prob: float, ref: float, name: str, framework: str) -> float:
    """The KL estimate of one token under a framework's clamps."""
    ratio = ref - log_prob
    kind = {"kl": "k1", "mse": "k2", "low_var_kl": "k3"}.get(name, name)
    if framework == "nemo" or (framework == "verl" and kind == "k3"):
        ratio = min(max(ratio, -20.0), 20.0)
    if framework == "openrlhf" and kind == "k3":
        ratio = max(ratio, -10.0)
    found = {
        "k1": lambda: -ratio,
        "abs": lambda: abs(ratio),
        "k2": lambda: ratio**2 / 2,
        "k3": lambda: math.exp(ratio) - 1 - ratio,
    }[kind]()
    bounded = framework in ("nemo", "openrlhf") or (framework == "verl" and kind == "k3")
    if bounded or (framework == "slime" and name == "low_var_kl"):
        found = min(max(found, -10.0), 10.0)
    return found


def levels(
    scores: Floats, groups: Sequence[Hashable], mean_level: str | None, std_level: str | None, leave_out: bool
) -> list[float]:
    """AReaL's normalisation of rewards, ddof 1, ε 1e-5 added."""

    def peers(i: int, level: str | None) -> list[int]:
        return [j for j in range(len(scores)) if level == "batch" or groups[j] == groups[i]]

    def mean(i: int) -> float:
        if mean_level is None:
            return 0.0
        counted = [scores[j] for j in peers(i, mean_level) if not (leave_out and j == i)]
        return math.fsum(counted) / len(counted) if counted else 0.0

    rest = [score - mean(i) for i, score in enumerate(scores)]
    if std_level is None:
        return rest
    found = []
    for i, own in enumerate(rest):
        squares = [rest[j] ** 2 for j in peers(i, std_level)]
        std = math.sqrt(math.fsum(squares) / (len(squares) - 1)) if len(squares) > 1 else 1.0
        found.append(own / (std + 1e-5))
    return found


def two_level_whitening(
    rows: Sequence[Floats], groups: Sequence[Hashable], mean_level: str, std_level: str, eps: float
) -> list[list[float]]:
    """Every token less the mean of its level, over the spread around that mean; ddof 1, ε added."""

    def mean(i: int) -> float:
        if mean_level == "none":
            return 0.0
        counted = [
            x for j, row in enumerate(rows) if mean_level == "batch" or groups[j] == groups[i] for x in row
        ]
        return math.fsum(counted) / len(counted) if counted else 0.0

    rest = [[x - mean(i) for x in row] for i, row in enumerate(rows)]
    found = []
    for i, row in enumerate(rest):
        counted = [
            x for j, other in enumerate(rest) if std_level == "batch" or groups[j] == groups[i] for x in other
        ]
        enough = len(counted) > 1
        std = math.sqrt(math.fsum(x * x for x in counted) / (len(counted) - 1)) if enough else 1.0 - eps
        found.append([x / (std + eps) for x in row])
    return found
