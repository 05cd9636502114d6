"""The estimators again, slow and obvious: loops over Python floats, one rollout or one group at a time."""

import math
from collections.abc import Hashable, Sequence

Floats = Sequence[float]


def gae(
    rewards: Floats, values: Floats, mask: Sequence[bool], gamma: float, lam: float, masked_tokens: str
) -> tuple[list[float], list[float]]:
    """(advantages, returns) of one rollout, from the last token backwards. One that is not finite makes it
    and every earlier one NaN."""
    advantages = [0.0] * len(mask)
    next_value = running = 0.0
    broken = False
    for t in reversed(range(len(mask))):
        if masked_tokens == "skip" and not mask[t]:
            advantages[t] = math.nan if broken else running
            continue
        kept = mask[t] or masked_tokens == "plain"
        reward, value = (rewards[t], values[t]) if kept else (0.0, 0.0)
        broken = broken or not (math.isfinite(reward) and math.isfinite(value))
        running = reward + gamma * next_value - value + gamma * lam * running
        next_value = value
        advantages[t] = math.nan if broken else running
    left = values if masked_tokens != "zero" else [v if m else 0.0 for v, m in zip(values, mask, strict=True)]
    return advantages, [a + v for a, v in zip(advantages, left, strict=True)]


def mean_and_std(numbers: Floats, ddof: int) -> tuple[float, float]:
    """NaN for a std of too few numbers, and for the mean of none."""
    if not numbers:
        return math.nan, math.nan
    mean = math.fsum(numbers) / len(numbers)
    if len(numbers) <= ddof:
        return mean, math.nan
    return mean, math.sqrt(math.fsum((x - mean) ** 2 for x in numbers) / (len(numbers) - ddof))


def group_relative(
    scores: Floats,
    groups: Sequence[Hashable],
    votes: Sequence[bool],
    *,
    over: str,
    epsilon: float,
    ddof: int = 1,
    singleton: str = "zero",
) -> list[float]:
    """(score − mean of the group) / (std + ε). Not finite scores are in no statistics and give NaN; `votes`
    says which of the others count."""
    counted = [math.isfinite(s) and v for s, v in zip(scores, votes, strict=True)]
    batch_std = mean_and_std([s for s, c in zip(scores, counted, strict=True) if c], ddof)[1]
    results = []
    for score, group, counts in zip(scores, groups, counted, strict=True):
        members = [i for i, other in enumerate(groups) if other == group]
        siblings = [scores[i] for i in members if counted[i]]
        if not math.isfinite(score):
            results.append(math.nan)
        elif not counts:
            results.append(0.0)
        elif len(siblings) == 1:
            lone = singleton == "raw" and len(members) == 1
            results.append((score / (1 + epsilon) if over != "none" else score) if lone else 0.0)
        else:
            mean, std = mean_and_std(siblings, ddof)
            std = batch_std if over == "batch" else std
            divisor = 1.0 if over == "none" else std + epsilon
            results.append((score - mean) / divisor if divisor > 0 else 0.0)
    return results


def whiten(
    rows: Sequence[Floats],
    masks: Sequence[Sequence[bool]],
    scopes: Sequence[Hashable],
    *,
    unit: str = "token",
    ddof: int = 1,
    eps: float = 1e-8,
    eps_placement: str = "under_root",
    scale: bool = True,
    shift_mean: bool = True,
) -> list[list[float]]:
    """Each row's values whitened over the rows of the same scope; only unmasked finite ones are counted."""
    kept = [
        [x for x, m in zip(row, mask, strict=True) if m and math.isfinite(x)]
        for row, mask in zip(rows, masks, strict=True)
    ]
    results = []
    for row, scope in zip(rows, scopes, strict=True):
        peers = [kept[i] for i, other in enumerate(scopes) if other == scope]
        counted = [x for peer in peers for x in peer]
        if unit == "response":
            counted = [math.fsum(peer) / len(peer) for peer in peers if peer]
        mean, std = mean_and_std(counted, ddof)
        mean = 0.0 if not counted else mean
        factor = 1.0
        if scale and not math.isnan(std):
            divisor = {
                "added": std + eps,
                "under_root": math.sqrt(std * std + eps),
                "floor": math.sqrt(max(std * std, eps)),
            }[eps_placement]
            factor = 1.0 / divisor if divisor > 0 else 1.0
        results.append([(x - mean) * factor + (0.0 if shift_mean else mean) for x in row])
    return results


def trl_score(components: Sequence[float | None], weights: Floats) -> float:
    """Weighted sum of what is there; NaN where nothing is."""
    present = [w * c for c, w in zip(components, weights, strict=True) if c is not None]
    return math.fsum(present) if present else math.nan
