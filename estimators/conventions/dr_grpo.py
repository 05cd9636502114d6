"""Centring without a division, as frameworks do it."""

from typing import Any

from estimators import dr_grpo
from estimators.conventions.convention import Convention
from estimators.whitening import Whitening

_TRL: dict[str, Any] = {"singleton": "zero", "fully_masked": "vote", "unscored": "zero", "score": "reward"}

DR_GRPO = (
    Convention(
        "dr_grpo/verl",
        "dr_grpo",
        dr_grpo.DrGrpoParams(singleton="raw", fully_masked="vote"),
        Whitening(),
        "verl",
        "0.9.1",
        "`norm_adv_by_std_in_grpo=False`: centred only; a group of one keeps its score.",
    ),
    Convention(
        "dr_grpo/trl",
        "dr_grpo",
        dr_grpo.DrGrpoParams(**_TRL),
        Whitening(),
        "trl",
        "1.16.0",
        '`scale_rewards="none"`: centred only; unscored rollouts are left out and get 0.',
    ),
)
