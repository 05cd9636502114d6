"""GRPO as frameworks compute it."""

from typing import Any

from estimators import grpo
from estimators.conventions.convention import Convention
from estimators.whitening import Whitening

_TRL: dict[str, Any] = {"singleton": "zero", "fully_masked": "vote", "unscored": "zero", "score": "reward"}

GRPO = (
    Convention(
        "grpo/verl",
        "grpo",
        grpo.GrpoParams(singleton="raw", fully_masked="vote"),
        Whitening(),
        "verl",
        "0.9.1",
        "Sample std of the group + 1e-6; a group of one keeps its score.",
    ),
    Convention(
        "grpo/trl-group",
        "grpo",
        grpo.GrpoParams(**_TRL, epsilon=1e-4),
        Whitening(),
        "trl",
        "1.16.0",
        "Sample std of the group + 1e-4; unscored rollouts are left out and get 0.",
    ),
    Convention(
        "grpo/trl-batch",
        "grpo",
        grpo.GrpoParams(**_TRL, epsilon=1e-4, scale_rewards="batch"),
        Whitening(),
        "trl",
        "1.16.0",
        "Centred by group, divided by the sample std of all raw scores of the batch + 1e-4.",
    ),
)
