"""What frameworks call estimators, where the header names no framework whose own names could be asked."""

from collections.abc import Mapping
from typing import Any

ESTIMATOR_NAMES = {
    "ppo": "gae", "gspo": "grpo", "cispo": "grpo", "sapo": "grpo", "dapo": "grpo", "group_norm": "grpo",
    "drgrpo": "dr_grpo", "dr.grpo": "dr_grpo", "max_rl": "maxrl", "prpo": "batch_z",
    "reinforce++": "reinforce_plus_plus", "reinforce_baseline": "reinforce_plus_plus_baseline",
    "reinforce++_baseline": "reinforce_plus_plus_baseline",
}  # fmt: skip


def text(value: Any) -> str | None:
    return value.strip().lower() if isinstance(value, str) and value.strip() else None


def estimator_named(value: Any) -> str | None:
    """The name in lower case, without an enumeration's in front; of an object its `name` or `type`."""
    if isinstance(value, Mapping):
        value = value.get("name", value.get("type"))
    said = text(value)
    return None if said is None else said.rpartition("estimator.")[2].replace("-", "_")
