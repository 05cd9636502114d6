"""Centring without a division, as frameworks do it."""

from typing import Any

from estimators.conventions import group_keys as keys
from estimators.conventions.convention import Convention
from estimators.conventions.keys import CHOSEN
from estimators.dr_grpo import DrGrpoParams
from estimators.whitening import Whitening

_VOTE: dict[str, Any] = {"fully_masked": "vote", "nonfinite": "spread"}


def _dr_grpo(framework: str, version: str, params: DrGrpoParams, note: str, aliases: keys.Keys) -> Convention:
    name = f"dr_grpo/{framework}"
    return Convention(name, "dr_grpo", params, Whitening(), framework, version, note, aliases)


DR_GRPO = (
    _dr_grpo(
        "verl",
        "0.9.1",
        DrGrpoParams(singleton="raw", segments="last", **_VOTE),
        "`norm_adv_by_std_in_grpo=False`: centred only; a group of one keeps its score.",
        {
            "adv_estimator": CHOSEN,
            "epsilon": CHOSEN,
            "norm_adv_by_std_in_grpo": keys.only(False, "grpo/verl"),
        },
    ),
    _dr_grpo(
        "trl",
        "1.16.0",
        DrGrpoParams(unscored="zero", score="reward", rounding="nan", **_VOTE),
        '`scale_rewards="none"`: centred only; unscored rollouts are left out and get 0.',
        keys.TRL_CENTRED,
    ),
    _dr_grpo(
        "openrlhf",
        "0.11.2",
        DrGrpoParams(
            rounding="rows",
            singleton="refuse",
            score="reward",
            advantage_clip_low=-10.0,
            advantage_clip_high=10.0,
            kl_placement="to_go",
            kl_clamp="openrlhf",
            kl_penalty="k1",
            **_VOTE,
        ),
        "Centred, then clipped to reward_clip_range; refuses groups of one. With kl_coef every token also "
        "has the KL of all later ones taken off.",
        keys.OPENRLHF,
    ),
    _dr_grpo(
        "prime-rl",
        "0.8.0",
        DrGrpoParams(segments="last", **_VOTE),
        "Centred only; a group of one has 0. The length penalty is a share of the group's mean score.",
        keys.PRIME,
    ),
    _dr_grpo(
        "tinker",
        "0.6.1",
        DrGrpoParams(kl_placement="centred", kl_clamp="none", **_VOTE),
        "Centred only; a group of one has 0. With kl_penalty_coef a token's KL below the batch's mean is "
        "added.",
        keys.TINKER,
    ),
    _dr_grpo(
        "open-instruct",
        "e6c3044a",
        DrGrpoParams(incomplete="refuse", score="reward", **_VOTE),
        "`centered`, the default. By position with num_samples_per_prompt_rollout.",
        keys.OPEN_INSTRUCT_CENTRED,
    ),
    _dr_grpo(
        "slime",
        "624b824a",
        DrGrpoParams(incomplete="batch", score="reward", rounding="rows", **_VOTE),
        "`--disable-grpo-std-normalization`: centred only. With n_samples_per_prompt groups are by position, "
        "and a batch of another size than expected becomes one group.",
        keys.SLIME_CENTRED,
    ),
    _dr_grpo(
        "skyrl",
        "a9564572",
        DrGrpoParams(singleton="raw", segments="last", **_VOTE),
        "`grpo_norm_by_std=false`: centred only; a group of one keeps its score.",
        {
            "advantage_estimator": CHOSEN,
            "epsilon": CHOSEN,
            "grpo_norm_by_std": keys.only(False, "grpo/skyrl"),
        },
    ),
)
