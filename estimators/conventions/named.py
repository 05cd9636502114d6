"""The key with which a framework's configuration chooses its estimator: it must be the convention's."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from estimators.conventions.convention import Alias, Convention

#: Keys that choose, in one framework or another.
CHOOSING = ("adv_estimator", "advantage_estimator", "estimator", "name", "algo", "type")
#: What frameworks call estimators that have another name here.
CALLED = {
    "ppo": "gae", "gspo": "grpo", "cispo": "grpo", "sapo": "grpo", "dapo": "grpo", "group_norm": "grpo",
    "drgrpo": "dr_grpo", "max_rl": "maxrl", "prpo": "batch_z", "echo": "grpo", "hierarchical_grpo": "grpo",
    "grpo_vectorized": "grpo", "rloo_vectorized": "rloo",
    "reinforce": "reinforce_plus_plus", "reinforce++": "reinforce_plus_plus",
    "reinforce_baseline": "reinforce_plus_plus_baseline",
    "reinforce++_baseline": "reinforce_plus_plus_baseline",
}  # fmt: skip
#: Where other settings of a framework make another of our estimators of what it calls by one name.
OTHERWISE: dict[str, dict[str, tuple[str, ...]]] = {
    "nemo-rl": {"grpo": ("rloo", "dr_grpo"), "reinforce_plus_plus": ("reinforce_plus_plus_baseline",)},
    "roll": {"grpo": ("batch_z", "running"), "reinforce_plus_plus": ("batch_z", "running", "grpo")},
    "slime": {"grpo": ("dr_grpo",), "reinforce_plus_plus_baseline": ("dr_grpo", "grpo")},
    "prime-rl": {"grpo": ("dr_grpo",)},
    "verl": {"grpo": ("dr_grpo",)},
    "skyrl": {"grpo": ("dr_grpo",)},
    "rllm": {"reinforce_plus_plus_baseline": ("dr_grpo",)},
}
#: ROLL's GAE and sums of rewards also follow a step over the group.
AFTER_A_STEP = {"roll": ("gae", "reinforce_plus_plus"), "areal": ("gae",)}


def checking_names(convention: Convention, every: Sequence[Convention]) -> Convention:
    """The convention, whose keys of choice are read: another estimator than its own is refused, and where one
    of `every` convention is meant it is named."""
    reader = Alias(read=_reader(convention, every))
    taken = {key: reader for key in CHOOSING if _says_nothing(convention, key)}
    return replace(convention, aliases={**convention.aliases, **taken})


def _says_nothing(convention: Convention, key: str) -> bool:
    known = convention.aliases.get(key)
    return key in convention.inert if known is None else known == Alias()


def _reader(convention: Convention, every: Sequence[Convention]) -> Callable[[Any], Mapping[str, Any]]:
    framework = convention.framework or ""
    others, after = OTHERWISE.get(framework, {}), AFTER_A_STEP.get(framework, ())

    def read(value: Any) -> Mapping[str, Any]:
        given: Any = value.get("type", value.get("name")) if isinstance(value, Mapping) else value
        if given is None:
            return {}
        said = str(given).lower().replace("-", "_").removeprefix("advantageestimator.")
        called = CALLED.get(said, said)
        meant = (called, *others.get(called, ()))
        if convention.estimator in meant or called in after:
            return {}
        there = [each.name for each in every if each.framework == framework and each.estimator in meant]
        instead = f"use {' or '.join(there)}" if there else "no convention here computes the other"
        raise ValueError(f"this convention computes {convention.estimator}; {instead}.")

    return read
