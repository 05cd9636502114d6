"""Which findings are true of a batch that was computed correctly: one predicate per code.

A claim is held against the rows themselves, and against what the convention does; a finding without a
predicate here is never true of these batches. What is only said of another way of computing ("whitened over
the batch, …") is true where that way is in use, or as a note (`info`).
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from estimators import CONVENTIONS
from estimators.membership import MembershipParams

if TYPE_CHECKING:
    from tests.truth.making import Made

Finding = Mapping[str, Any]
Predicate = Callable[["Made", Finding], bool]

#: What float32 leaves of a mean, divided by the smallest ε in use, is no signal that anybody meant.
RESIDUE = 1.0
#: Estimators whose only baseline is the batch: signs inside a group may turn.
OVER_BATCH = ("reinforce_plus_plus", "batch_z", "running")


def never(batch: "Made", found: Finding) -> bool:
    return False


def noted(batch: "Made", found: Finding) -> bool:
    return bool(found["severity"] == "info")


def compares(batch: "Made") -> bool:
    """Whether the convention compares the rollouts of a group."""
    convention = CONVENTIONS[batch.convention]
    by_place = convention.estimator in ("batch_z", "running", "rae", "reinforce_plus_plus")
    token = convention.estimator.endswith("token_baseline")
    return token or (isinstance(convention.params, MembershipParams) and not by_place)


def groups(batch: "Made") -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for row in batch.rows:
        found.setdefault(row["group_id"], []).append(row["reward"])
    return found


def per_token(batch: "Made") -> list[list[float]]:
    """The recorded numbers of each row, one per token."""
    return [
        values * len(row["response_mask"]) if len(values) == 1 else values
        for row, values in zip(batch.rows, batch.advantages, strict=True)
    ]


def constant(batch: "Made") -> set[str]:
    return {
        name for name, own in groups(batch).items() if len(own) > 1 and np.ptp(own) <= 2.4e-7 * abs(own[0])
    }


def _without_signal(batch: "Made", found: Finding) -> bool:
    """Groups of equal rewards are there, and their advantages are nothing but rounding."""
    equal = constant(batch)
    size = [
        abs(value)
        for row, values in zip(batch.rows, batch.advantages, strict=True)
        if row["group_id"] in equal
        for value in _unmasked(row, values)
        if np.isfinite(value)
    ]
    return bool(equal) and max(size, default=0.0) <= RESIDUE


def _every_advantage_zero(batch: "Made", found: Finding) -> bool:
    if len(constant(batch)) == len(groups(batch)):
        return _without_signal(batch, found)
    given = (_unmasked(row, values) for row, values in zip(batch.rows, batch.advantages, strict=True))
    return not any(value for values in given for value in values)


def _unmasked(row: Mapping[str, Any], values: list[float]) -> list[float]:
    if len(values) == 1:
        return values
    return [value for value, kept in zip(values, row["response_mask"], strict=True) if kept]


def _singletons(batch: "Made", found: Finding) -> bool:
    alone = any(len(own) == 1 for own in groups(batch).values())
    return alone and batch.kind != "validation" and (compares(batch) or batch.told == "none")


def _sizes_differ(batch: "Made", found: Finding) -> bool:
    return len({len(own) for own in groups(batch).values()}) > 1


def _near(batch: "Made", found: Finding) -> bool:
    spreads = [float(np.ptp(own)) for own in groups(batch).values() if len(own) > 1]
    return any(0 < spread < 0.2 * max(spreads) for spread in spreads) or any(
        0 < np.ptp(own) < 5e-5 * np.max(np.abs(own)) for own in groups(batch).values()
    )


def _votes(batch: "Made", found: Finding) -> bool:
    return compares(batch) and any(not sum(row["response_mask"]) for row in batch.rows)


def _truncated(batch: "Made", found: Finding) -> bool:
    return any(row["finish_reason"] == "length" for row in batch.rows)


def _by_epsilon(batch: "Made", found: Finding) -> bool:
    kind = found["evidence"]["kind"]
    if kind == "small spread":
        return any(0 < np.std(own, ddof=1) < 1e-3 for own in groups(batch).values() if len(own) > 1)
    narrow = batch.written == "float32" or _of(batch, "statistics") == "single"
    return bool(kind == "rounding" and narrow and constant(batch))


def _masked_advantages(batch: "Made", found: Finding) -> bool:
    return any(
        value != 0 and not kept
        for row, values in zip(batch.rows, batch.advantages, strict=True)
        if len(values) == len(row["response_mask"])
        for value, kept in zip(values, row["response_mask"], strict=True)
    ) and (found["severity"] != "critical" or _masked_tokens(batch) == "reset")


def _of(batch: "Made", setting: str) -> Any:
    return getattr(CONVENTIONS[batch.convention].params, setting, None)


def _masked_tokens(batch: "Made") -> Any:
    return _of(batch, "masked_tokens")


def _cut_off(batch: "Made", found: Finding) -> bool:
    return _masked_advantages(batch, found) or _masked_tokens(batch) == "reset"


def _masked_reward(batch: "Made", found: Finding) -> bool:
    return any(
        reward != 0 and not kept
        for row in batch.rows
        for reward, kept in zip(row.get("token_level_rewards", []), row["response_mask"], strict=False)
    )


def _few_tokens(batch: "Made", found: Finding) -> bool:
    return sum(sum(row["response_mask"]) for row in batch.rows) < 2


def _flips(batch: "Made", found: Finding) -> bool:
    return noted(batch, found) or CONVENTIONS[batch.convention].estimator in OVER_BATCH


def _offset(batch: "Made", found: Finding) -> bool:
    return noted(batch, found) or CONVENTIONS[batch.convention].estimator in OVER_BATCH


def _leaks(batch: "Made", found: Finding) -> bool:
    return batch.kind == "padded" or _masked_tokens(batch) == "plain"


def _past_end(batch: "Made", found: Finding) -> bool:
    """A row without a trainable token has its reward somewhere all the same."""
    return any(
        any(row.get("token_level_rewards", [])) and not any(row["response_mask"]) for row in batch.rows
    )


def _large(batch: "Made", found: Finding) -> bool:
    numbers = [abs(x) for values in batch.advantages for x in values if np.isfinite(x)]
    return max(numbers, default=0.0) > 20 * float(np.median([x for x in numbers if x] or [0.0]))


def _in_one_pass(batch: "Made", found: Finding) -> bool:
    """NeMo-RL's std is E[x²] − E[x]² in float32."""
    one_pass = found["evidence"]["kind"] == "one-pass variance"
    return one_pass and batch.written == "float32" and batch.convention.startswith("grpo/nemo")


def _not_finite(batch: "Made", found: Finding) -> bool:
    return any(not np.isfinite(x) for values in batch.advantages for x in values)


TRUE: dict[str, Predicate] = {
    "zero_variance_groups": _without_signal,
    "loss_zero_despite_reward_spread": _every_advantage_zero,
    "singleton_groups": _singletons,
    "unequal_group_sizes": _sizes_differ,
    "near_zero_variance_groups": _near,
    "fully_masked_rollout_votes": _votes,
    "truncated_rollouts": _truncated,
    "epsilon_dominated": _by_epsilon,
    "advantages_on_masked_tokens": _cut_off,
    "reward_on_masked_token": _masked_reward,
    "too_few_tokens_to_whiten": _few_tokens,
    "sign_flips": _flips,
    "task_offset": _offset,
    "masked_values_leak": _leaks,
    "reward_past_end": _past_end,
    "outlier_advantages": _large,
    "precision_loss": _in_one_pass,
    "nonfinite_values": _not_finite,
    "interleaved_groups": noted,
    "length_bias": noted,
}
