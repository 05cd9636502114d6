"""The estimators as frameworks compute them, as data: an estimator, its parameters and a whitening."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from estimators import dr_grpo, gae, grpo, td_error
from estimators.whitening import W_POP, W_VERL, Whitening


@dataclass(frozen=True, slots=True)
class Alias:
    """A configuration key of the framework: it sets `target` of the params, or of the whitening."""

    target: str
    whitening: bool = False
    negate: bool = False


@dataclass(frozen=True, slots=True)
class Convention:
    """`params` is the estimator's parameter dataclass; `framework` and `version` say with whom it agrees."""

    name: str
    estimator: str
    params: Any
    whitening: Whitening
    framework: str | None
    version: str | None
    note: str
    aliases: Mapping[str, Alias] = field(default_factory=dict)


_LAMBD = {"lambd": Alias("lam")}
_OPENRLHF_KEYS = {
    **_LAMBD,
    "no_std_norm": Alias("scale", whitening=True, negate=True),
    "init_coef": Alias("kl_coef"),
    "kl_estimator": Alias("kl_penalty"),
}
_TRL: dict[str, Any] = {"singleton": "zero", "fully_masked": "vote", "unscored": "zero", "score": "reward"}

_ALL = (
    Convention(
        "gae/verl",
        "gae",
        gae.GaeParams(score_location="last_response"),
        W_VERL,
        "verl",
        "0.9.1",
        "Masked tokens are skipped, so a reward on one is lost; whitened over the batch's unmasked tokens.",
    ),
    Convention(
        "gae/verl-0.4",
        "gae",
        gae.GaeParams(score_location="last_response", masked_tokens="plain"),
        W_VERL,
        "verl",
        "0.4",
        "Masked tokens take part with their recorded values; whitened over the batch's unmasked tokens.",
    ),
    Convention(
        "gae/openrlhf",
        "gae",
        gae.GaeParams(
            masked_tokens="zero", kl_clamp="openrlhf", kl_penalty="k1", reward_clip_range=(-10.0, 10.0)
        ),
        W_POP,
        "openrlhf",
        "0.11.2",
        "Masked tokens count as reward 0 and value 0 and cost one step of γλ; population std over the batch.",
        _OPENRLHF_KEYS,
    ),
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
    Convention(
        "td_error",
        "td_error",
        td_error.TdErrorParams(),
        Whitening(),
        None,
        None,
        "One-step errors as they are; masked tokens are skipped.",
    ),
)

CONVENTIONS: dict[str, Convention] = {convention.name: convention for convention in _ALL}
