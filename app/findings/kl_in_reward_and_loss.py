"""A KL penalty that is configured twice: taken off the reward and added to the loss.

Read from the file's header, whatever objects its settings lie in. In the reward: `use_kl_in_reward` (verl,
SkyRL) or `add_token_level_kl` (ROLL) is true and the coefficient is not 0. In the loss: `use_kl_loss` is
true, or where nothing says so `kl_loss_coef` is above 0, and the coefficient is not 0. Both together are
legal; verl itself prints a notice. Nothing is said for frameworks in which one switch turns the other off or
forbids it (OpenRLHF, NeMo-RL, slime, miles, ms-swift, EasyR1), or that have only one of the two (TRL), nor
where the file's rewards before and after the penalty are equal.

warning where both switches are on; info where the loss has a coefficient and no switch.

Seen as: a policy that hardly leaves its reference, the same coefficient set in two places (verl#265,
verl#3276, TinyZero#67).

Remedy: keep one: the loss for estimators that compare siblings, as KL in the reward goes into the baselines
and the std of the groups.

Evidence: `reward` and `loss`: the settings by name as the header has them.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from app.findings.finding import Finding, report
from app.findings.part import Part
from app.findings.view import View

REWARD_SWITCHES, REWARD_COEFFICIENTS = ("use_kl_in_reward", "add_token_level_kl"), ("kl_coef", "init_kl_coef")
LOSS_SWITCH, LOSS_COEFFICIENT = "use_kl_loss", "kl_loss_coef"
#: One of the two at most has an effect there.
EXCLUSIVE = (
    "openrlhf", "nemo", "nemo-rl", "slime", "miles", "ms-swift", "swift", "easyr1", "trl", "unsloth", "areal",
)  # fmt: skip
#: Where the loss takes its coefficient only with the switch.
SWITCHED = ("verl", "skyrl", "roll")
DEPTH = 6


def begin(view: View) -> dict[str, bool]:
    # Without such a setting no token needs to be looked at.
    needless = not any(name in REWARD_SWITCHES for name, _ in _settings(view.header))
    return {"compared": False, "differs": False, "needless": needless}


def observe(part: Part, state: dict[str, bool]) -> None:
    if state["differs"] or state["needless"]:
        return
    after, before = part.floats("token_level_rewards"), part.floats("token_level_scores")
    if after is None or before is None:
        return
    both = np.isfinite(after) & np.isfinite(before)
    state["compared"] |= bool(both.any())
    state["differs"] = bool((np.abs(after - before)[both] > 0).any())


def check(view: View) -> dict[str, Any] | None:
    state, said = view.facts["kl_in_reward_and_loss"], dict(_settings(view.header))
    framework = str(view.header.get("framework", "")).strip().lower().replace("_", "-")
    if framework in EXCLUSIVE or (state["compared"] and not state["differs"]):
        return None
    reward = {name: said[name] for name in (*REWARD_SWITCHES, *REWARD_COEFFICIENTS) if name in said}
    loss = {name: said[name] for name in (LOSS_SWITCH, LOSS_COEFFICIENT) if name in said}
    in_reward = any(_on(reward.get(name)) for name in REWARD_SWITCHES)
    if not in_reward or _none(reward, REWARD_COEFFICIENTS) or _none(loss, (LOSS_COEFFICIENT,)):
        return None
    switched = _on(loss.get(LOSS_SWITCH))
    bare = LOSS_SWITCH not in loss and LOSS_COEFFICIENT in loss and framework not in SWITCHED
    if not switched and not bare:
        return None
    return report(
        view,
        "warning" if switched else "info",
        f"The KL penalty is configured twice: off the reward ({_listed(reward)}) and in the loss "
        f"({_listed(loss)}).",
        explanation="The policy is held to its reference by both: through the advantages, where estimators "
        "that compare siblings subtract a group's mean KL again and divide by a spread that has it in, and "
        "directly. It is legal, and seldom meant.",
        remedy="Keep one of the two: the loss for estimators that compare siblings, the reward for those "
        "with a critic.",
        evidence={"reward": reward, "loss": loss},
    )


def _settings(value: Any, name: str = "", depth: int = 0) -> Iterator[tuple[str, Any]]:
    """Every setting by the last part of its name; those of outer objects come last, and stand."""
    if isinstance(value, Mapping) and depth < DEPTH:
        inner = [(str(key).rsplit(".", 1)[-1], each) for key, each in value.items()]
        for key, each in sorted(inner, key=lambda pair: not isinstance(pair[1], Mapping)):
            yield from _settings(each, key, depth + 1)
    elif isinstance(value, bool | int | float | str):
        yield name, value


def _on(value: Any) -> bool:
    return (
        value is True or (isinstance(value, str) and value.strip().lower() == "true") or _number(value) == 1.0
    )


def _none(said: Mapping[str, Any], names: tuple[str, ...]) -> bool:
    """A coefficient is given and none is above 0; a default counts as one."""
    given = [_number(said[name]) for name in names if name in said]
    return bool(given) and not any(each is not None and each > 0 for each in given)


def _number(value: Any) -> float | None:
    try:
        return None if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        return None


def _listed(said: Mapping[str, Any]) -> str:
    return ", ".join(
        f"{name} = {str(value).lower() if isinstance(value, bool) else value}" for name, value in said.items()
    )


FINDING = Finding("kl_in_reward_and_loss", "KL both in the reward and in the loss", check, observe, begin)
