"""The estimators that compare rollouts again, slow and obvious: one rollout at a time, over plain lists."""

from collections.abc import Hashable, Sequence
from math import sqrt

Floats = Sequence[float]
Groups = Sequence[Hashable]


def siblings(i: int, groups: Groups) -> list[int]:
    """The members of the group of rollout i, itself included."""
    return [j for j, group in enumerate(groups) if group == groups[i]]


def mean(numbers: Floats) -> float:
    return sum(numbers) / len(numbers)


def std(numbers: Floats, ddof: int) -> float:
    centre = mean(numbers)
    return sqrt(sum((x - centre) ** 2 for x in numbers) / (len(numbers) - ddof))


def rloo(scores: Floats, groups: Groups, raw: bool) -> list[float]:
    found = []
    for i, score in enumerate(scores):
        others = [scores[j] for j in siblings(i, groups) if j != i]
        found.append(score - mean(others) if others else score if raw else 0.0)
    return found


def leave_one_out(scores: Floats, groups: Groups, epsilon: float) -> list[float]:
    """Mean and std of the others; not divided where that std is 0 or there is but one of them."""
    found = []
    for i, score in enumerate(scores):
        others = [scores[j] for j in siblings(i, groups) if j != i]
        if not others:
            found.append(0.0)
            continue
        spread = std(others, 1) if len(others) > 1 else 0.0
        centred = score - mean(others)
        found.append(centred / (spread + epsilon) if spread > 0 else centred)
    return found


def opo(scores: Floats, groups: Groups, lengths: Sequence[int]) -> list[float]:
    found = []
    for i, score in enumerate(scores):
        same = siblings(i, groups)
        total = sum(lengths[j] for j in same)
        baseline = (
            sum(lengths[j] * scores[j] for j in same) / total if total else mean([scores[j] for j in same])
        )
        found.append(score - baseline if len(same) > 1 else score)
    return found


def gpg(scores: Floats, groups: Groups, f_norm: float) -> list[float]:
    alpha = len(scores) / max(sum(score != 0 for score in scores), 1)
    found = []
    for i, score in enumerate(scores):
        same = siblings(i, groups)
        centred = score - mean([scores[j] for j in same]) if len(same) > 1 else score
        found.append(alpha * centred / f_norm)
    return found


def maxrl(scores: Floats, groups: Groups) -> list[float]:
    """prime-rl's: nothing where the mean is not above 0."""
    found = []
    for i, score in enumerate(scores):
        same = siblings(i, groups)
        centre = mean([scores[j] for j in same])
        found.append((score - centre) / centre if len(same) > 1 and centre > 0 else 0.0)
    return found


def passk(scores: Floats, groups: Groups, epsilon: float) -> list[float]:
    found = []
    for i, score in enumerate(scores):
        same = siblings(i, groups)
        others = [scores[j] for j in same if j != i]
        if not others or score <= max(others):
            found.append(0.0)
        else:
            found.append((score - max(others)) / (std([scores[j] for j in same], 1) + epsilon))
    return found


def batch_z(scores: Floats, ddof: int, epsilon: float) -> list[float]:
    if len(scores) <= ddof:
        return [0.0] * len(scores)
    centre, spread = mean(scores), std(scores, ddof)
    return [(score - centre) / (spread + epsilon) for score in scores]


def running(steps: Sequence[Floats], epsilon: float) -> list[list[float]]:
    """Every step over all scores up to and with it."""
    seen: list[float] = []
    found = []
    for scores in steps:
        seen += scores
        spread = std(seen, 1) if len(seen) > 1 else 0.0
        found.append([(score - mean(seen)) / (spread + epsilon) if spread else 0.0 for score in scores])
    return found


def rae(scores: Floats, tasks: Groups, decay: float) -> list[float]:
    baselines: dict[Hashable, float] = {}
    found = []
    for score, task in zip(scores, tasks, strict=True):
        baseline = baselines.get(task, 0.0)
        found.append(score - baseline)
        baselines[task] = decay * baseline + (1 - decay) * score
    return found


def process(steps: Sequence[Floats], gamma: float) -> list[list[float]]:
    """One group: every step reward over all of them, then the discounted sum of what follows."""
    every = [reward for row in steps for reward in row]
    centre, spread = mean(every), std(every, 0)
    found = []
    for row in steps:
        standard = [(reward - centre) / spread for reward in row]
        found.append([sum(gamma**k * z for k, z in enumerate(standard[t:])) for t in range(len(row))])
    return found


def best_and_worst(scores: Floats, groups: Groups) -> list[tuple[int, int]]:
    """(chosen, rejected) of every group with two different scores, the first of equal ones."""
    found = []
    for group in dict.fromkeys(groups):
        same = [i for i, other in enumerate(groups) if other == group]
        chosen = max(same, key=lambda i: (scores[i], -i))
        rejected = min(same, key=lambda i: (scores[i], i))
        if scores[chosen] > scores[rejected]:
            found.append((chosen, rejected))
    return found
