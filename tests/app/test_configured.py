"""What a file's header says of its advantages, in the words of each framework."""

from typing import Any

import pytest

from app.configured import BY_DEFAULT, FRAMEWORKS, configured
from estimators import CONVENTIONS


@pytest.mark.parametrize(
    ("framework", "estimator", "convention"),
    [
        ("verl", "AdvantageEstimator.GRPO", "grpo/verl"),
        ("verl", "rloo_vectorized", "rloo_vectorized/verl"),
        ("easyr1", "grpo", "grpo/verl"),
        ("ms-swift", "grpo", "grpo/trl-group"),
        ("nemo-rl", "grpo", "grpo/nemo-loo"),
        ("nemo-rl", "reinforce_plus_plus", "reinforce_plus_plus/nemo"),
        ("skyrl", "reinforce++", "reinforce_plus_plus/skyrl"),
        ("slime", "cispo", "grpo/slime"),
        ("slime", "ppo", "gae/slime"),
        ("prime-rl", "grpo", "dr_grpo/prime-rl"),
        ("prime_rl", "max_rl", "maxrl/prime-rl"),
        ("open-instruct", "centered", "dr_grpo/open-instruct"),
        ("rllm", "prpo", "batch_z/rllm"),
        ("tinker-cookbook", "grpo", "dr_grpo/tinker"),
        ("openrlhf", "group_norm", "grpo/openrlhf"),
        ("OpenRLHF", "reinforce", "reinforce_plus_plus/openrlhf"),
        ("torchrl", "gae", "gae/torchrl"),
        ("roll", "reinforce", None),
        ("slime", "reinforce_plus_plus_baseline", None),
    ],
)
def test_estimators_by_the_names_of_their_framework(
    framework: str, estimator: str, convention: str | None
) -> None:
    said = configured({"framework": framework, "adv_estimator": estimator})
    assert said.convention == convention
    assert convention is None or said.estimator == CONVENTIONS[convention].estimator


@pytest.mark.parametrize(
    ("header", "convention"),
    [
        ({"framework": "nemo-rl", "adv_estimator": "grpo", "use_leave_one_out_baseline": False}, "grpo/nemo"),
        ({"framework": "trl", "scale_rewards": "batch"}, "grpo/trl-batch"),
        ({"framework": "trl", "scale_rewards": "none"}, "dr_grpo/trl"),
        ({"framework": "skyrl", "adv_estimator": "grpo", "grpo_norm_by_std": False}, "dr_grpo/skyrl"),
        ({"framework": "verl", "adv_estimator": "grpo", "norm_adv_by_std_in_grpo": False}, "dr_grpo/verl"),
    ],
)
def test_switches_of_a_framework_choose_the_convention(header: dict[str, Any], convention: str) -> None:
    assert configured(header).convention == convention


def test_defaults_are_conventions_of_frameworks_that_are_known() -> None:
    assert set(BY_DEFAULT) <= {each.name for each in FRAMEWORKS}
    assert set(BY_DEFAULT.values()) <= set(CONVENTIONS)
