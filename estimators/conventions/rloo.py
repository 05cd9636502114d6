"""Leave-one-out as frameworks do it."""

from typing import Any

from estimators.conventions import group_keys as keys
from estimators.conventions.convention import Convention
from estimators.conventions.keys import CHOSEN
from estimators.rloo import RlooParams
from estimators.whitening import Whitening

_VOTE: dict[str, Any] = {"fully_masked": "vote", "nonfinite": "spread"}
#: TRL's z-score over responses, off unless `normalize_advantages` is given.
_RESPONSES = Whitening("none", unit="response", eps=1e-4, eps_placement="added", too_few="skip")


def _rloo(
    framework: str,
    version: str,
    params: RlooParams,
    note: str,
    aliases: keys.Keys,
    whitening: Whitening | None = None,
) -> Convention:
    name = f"rloo/{framework.removesuffix('-rl')}"
    return Convention(name, "rloo", params, whitening or Whitening(), framework, version, note, aliases)


RLOO = (
    _rloo(
        "verl",
        "0.9.1",
        RlooParams(singleton="raw", **_VOTE),
        "A group of one keeps its score.",
        {"adv_estimator": CHOSEN, "epsilon": CHOSEN},
    ),
    _rloo(
        "trl",
        "1.16.0",
        RlooParams(
            unscored="zero", score="reward", kl_clamp="none", kl_penalty="k1", rounding="nan", **_VOTE
        ),
        "Over the siblings that have a score; a group of one has 0. The trainer takes beta = 0.05 times the "
        "KL of all tokens off the score; give beta to do the same.",
        keys.TRL_RLOO,
        _RESPONSES,
    ),
    _rloo(
        "openrlhf",
        "0.11.2",
        RlooParams(
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
        "Then clipped to reward_clip_range; refuses groups of one. With kl_coef every token also has the KL "
        "of all later ones taken off.",
        keys.OPENRLHF,
    ),
    _rloo(
        "nemo-rl",
        "0.6.0",
        RlooParams(**_VOTE),
        "Leave-one-out baseline with normalize_rewards false; a group of one has 0.",
        {
            "use_leave_one_out_baseline": keys.only(True, "dr_grpo/prime-rl"),
            "normalize_rewards": keys.only(False, "grpo/nemo-loo"),
            "epsilon": CHOSEN,
        },
    ),
    _rloo(
        "areal",
        "1.0.4",
        RlooParams(singleton="raw", incomplete="raw", score="reward", **_VOTE),
        "`mean_leave1out` without std_level; a group of one keeps its score.",
        keys.AREAL_RLOO,
    ),
    _rloo(
        "rllm",
        "0.3.0.pre",
        RlooParams(singleton="raw", **_VOTE),
        "A group of one keeps its score.",
        keys.RLLM_PLAIN,
    ),
    _rloo(
        "skyrl",
        "a9564572",
        RlooParams(segments="last", rounding="skyrl", **_VOTE),
        "A group of one has 0.",
        {"advantage_estimator": CHOSEN},
    ),
    Convention(
        "rloo_vectorized/verl",
        "rloo",
        RlooParams(rounding="scattered", **_VOTE),
        Whitening(),
        "verl",
        "0.9.1",
        "As rloo/verl, but a group of one has 0.",
        {"adv_estimator": CHOSEN, "epsilon": CHOSEN},
    ),
)
