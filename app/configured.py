"""What a file's header says of how its advantages were computed: convention, framework, parameters."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from estimators import CONVENTIONS, ESTIMATORS
from estimators.parameters import read_settings

#: What frameworks call themselves, and what their conventions are called after; others follow verl's.
FRAMEWORKS = {
    "verl": "verl", "easyr1": "verl", "trl": "trl", "ms-swift": "trl", "openrlhf": "openrlhf", "nemo": "nemo",
    "nemo-rl": "nemo", "slime": "slime", "skyrl": "skyrl", "areal": "areal", "roll": "roll", "rllm": "rllm",
    "prime-rl": "prime-rl", "open-instruct": "open-instruct", "torchrl": "torchrl", "tinker": "tinker",
    "tinker-cookbook": "tinker", "atropos": "atropos", "swift": "trl", "unsloth": "trl",
}  # fmt: skip
#: What frameworks call estimators that have another name here.
ESTIMATOR_NAMES = {
    "ppo": "gae", "gspo": "grpo", "cispo": "grpo", "sapo": "grpo", "dapo": "grpo", "group_norm": "grpo",
    "drgrpo": "dr_grpo", "dr-grpo": "dr_grpo", "dr.grpo": "dr_grpo", "max_rl": "maxrl", "prpo": "batch_z",
    "standard": "grpo", "centered": "dr_grpo", "reinforce++": "reinforce_plus_plus",
    "reinforce_baseline": "reinforce_plus_plus_baseline",
    "reinforce++-baseline": "reinforce_plus_plus_baseline",
}  # fmt: skip
#: Conventions that a framework uses by default, where their name is not simply `estimator/framework`.
USUAL = {
    ("grpo", "trl"): "grpo/trl-group",
    ("gae", "trl"): "gae/trl-ppo",
    ("grpo", "nemo"): "grpo/nemo-loo",
    # What these call GRPO does not divide by the spread.
    ("grpo", "prime-rl"): "dr_grpo/prime-rl",
    ("grpo", "tinker"): "dr_grpo/tinker",
    ("reinforce", "openrlhf"): "reinforce_plus_plus/openrlhf",
}
#: What a framework computes unless it is told otherwise, for batches of groups.
BY_DEFAULT = {
    "trl": "grpo/trl-group", "nemo": "grpo/nemo-loo", "slime": "grpo/slime", "skyrl": "grpo/skyrl",
    "areal": "grpo/areal", "prime-rl": "dr_grpo/prime-rl", "open-instruct": "dr_grpo/open-instruct",
    "rllm": "grpo/rllm", "tinker": "dr_grpo/tinker",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Configured:
    """As far as the header says it. `convention` is that of the framework, or verl's where none is named.

    params  name -> value, of those that an estimator has and takes
    """

    convention: str | None = None
    framework: str | None = None
    estimator: str | None = None
    params: dict[str, Any] = field(default_factory=dict)


def configured(header: Mapping[str, Any], format: str = "") -> Configured:
    """`format`: that of the file, which tells the framework where the header does not."""
    framework = family(header, format)
    name = text(header.get("adv_estimator"))
    name = None if name is None else name.removeprefix("advantageestimator.")
    estimator = None if name is None else ESTIMATOR_NAMES.get(name, name)
    if estimator is None and framework == "trl":
        estimator = "grpo"
    if estimator == "grpo":
        estimator = _grpo_of(header)
    convention = None
    if estimator is not None:
        at = framework or "verl"
        convention = _switched(header, USUAL.get((estimator, at), f"{estimator}/{at}"))
        convention = convention if convention in CONVENTIONS else None
    known = estimator if estimator in ESTIMATORS else None
    if convention is not None:
        known = CONVENTIONS[convention].estimator
    return Configured(convention, framework, known, parameters(header))


def _grpo_of(header: Mapping[str, Any]) -> str:
    """GRPO, or what is left of it where a switch leaves the division by the spread out."""
    off = any(header.get(name) is False for name in ("norm_adv_by_std_in_grpo", "grpo_norm_by_std"))
    unscaled = "scale_rewards" in header and header["scale_rewards"] in (False, "none")
    return "dr_grpo" if off or unscaled else "grpo"


def _switched(header: Mapping[str, Any], convention: str) -> str:
    """The convention that a switch of the framework makes of its usual one."""
    if convention == "grpo/nemo-loo" and header.get("use_leave_one_out_baseline") is False:
        return "grpo/nemo"
    if convention == "grpo/trl-group" and header.get("scale_rewards") == "batch":
        return "grpo/trl-batch"
    return convention


def family(header: Mapping[str, Any], format: str) -> str | None:
    """The framework that the header names, else that of the format, by the name of its conventions."""
    said = text(header.get("framework"))
    name = (said or format.split("-")[0]).replace("_", "-").replace(" ", "-")
    return FRAMEWORKS.get(name, "verl" if said else None)


def parameters(header: Mapping[str, Any]) -> dict[str, Any]:
    """Values under names of parameters, as far as every estimator with such a parameter takes them."""
    found: dict[str, Any] = {}
    for estimator in ESTIMATORS.values():
        start = estimator.params()
        for name in start.__dataclass_fields__:
            value = header.get(name)
            if value is None or (name in found and found[name] is None):
                continue
            try:
                found[name] = getattr(read_settings(start, {name: value}, ""), name)
            except ValueError:
                found[name] = None
    return {name: value for name, value in found.items() if value is not None}


def text(value: Any) -> str | None:
    return value.strip().lower() if isinstance(value, str) and value.strip() else None
