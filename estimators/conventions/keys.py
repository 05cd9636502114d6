"""Configuration keys that several conventions read, and how they are read."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from estimators.conventions.convention import Alias
from estimators.levels import LevelNorm
from estimators.parameters import read_settings, settings_to_dict
from estimators.whitening import W_VERL


def over_the_batch(value: Any) -> Mapping[str, Any]:
    """A switch of whitening over the batch."""
    if not isinstance(value, bool):
        raise ValueError("give true or false.")
    return {"scope": "batch" if value else "none"}


def less_the_mean_of_all_cells(value: Any) -> Mapping[str, Any]:
    """SkyRL's whitening over the batch: its mean counts masked tokens and padding, its spread does not."""
    if not isinstance(value, bool):
        raise ValueError("give true or false.")
    if not value:
        return {"scope": "none"}
    return {
        "scope": "batch",
        "mean_scope": "cells",
        "ddof": 0,
        "eps_placement": "floor",
        "zero_masked": False,
    }


def once_more(again: Mapping[str, Any]) -> Alias:
    """SkyRL's switch where advantages were whitened before: both together are one whitening, `again`."""

    def read(value: Any) -> Mapping[str, Any]:
        if not isinstance(value, bool):
            raise ValueError("give true or false.")
        return again if value else {}

    return Alias(whitening=True, read=read)


def roll_sums(value: Any) -> Mapping[str, Any]:
    return {"masked_tokens": "zero"} if value == "reinforce" else {}


def as_roll_whitens(value: Any) -> Mapping[str, Any]:
    """ROLL's switch of whitening: one token is left as it is, and masked tokens become 0."""
    settings = settings_to_dict(replace(W_VERL, zero_masked=True, too_few="skip"))
    return settings if over_the_batch(value)["scope"] == "batch" else {"scope": "none"}


def truncated_rollouts(rule: str) -> Alias:
    """A switch that takes truncated rollouts out of the loss (mask) or out of the batch (drop)."""

    def read(value: Any) -> Mapping[str, Any]:
        if not isinstance(value, bool):
            raise ValueError("give true or false.")
        return {"truncation": rule if value else "keep"}

    return Alias(read=read)


def around_zero(value: Any) -> Mapping[str, Any]:
    """A bound of the absolute reward."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value < 0:
        raise ValueError("give a number of at least 0.")
    return {"reward_clip_range": [-float(value), float(value)]}


def two_levels(value: Any) -> Mapping[str, Any]:
    """AReaL's `adv_norm`, as whitening: masked tokens become 0, and ε is added to the spread."""
    if value is None:
        return {"scope": "none", "zero_masked": False}
    norm = read_settings(LevelNorm(), value, "adv_norm")
    if norm.mean_leave1out:
        raise ValueError(
            "a mean that leaves the value out is not there for tokens; set mean_leave1out to false."
        )
    levels = {"batch": "batch", "group": "group", None: "none"}
    scope = norm.std_level or norm.mean_level
    return {
        "scope": levels[scope],
        "mean_scope": "same" if scope == norm.mean_level else levels[norm.mean_level],
        "scale": norm.std_level is not None,
        "ddof": 1 if norm.std_unbiased else 0,
        "eps": norm.eps,
        "eps_placement": "added",
        "zero_masked": True,
    }


def prompts_by_place(value: Any) -> Mapping[str, Any]:
    if value is None:
        return {}
    raise ValueError("leave it out: the rollouts of a prompt are those of one group_id.")


#: Says what the convention's name says, or is of no account in it.
CHOSEN = Alias()
BATCH_NORMALIZE = Alias(whitening=True, read=less_the_mean_of_all_cells)
MASK_TRUNCATED = truncated_rollouts("mask")
DROP_TRUNCATED = truncated_rollouts("drop")
WHITEN = Alias(whitening=True, read=over_the_batch)

LAMBD = {"lambd": Alias("lam")}
OPENRLHF = {
    **LAMBD,
    "estimator": CHOSEN,
    "n_samples_per_prompt": CHOSEN,
    "no_std_norm": Alias("scale", whitening=True, negate=True),
    "init_coef": Alias("kl_coef"),
    "init_kl_coef": Alias("kl_coef"),
    "kl_estimator": Alias("kl_penalty"),
}
NEMO = {
    "gae_lambda": Alias("lam"),
    "gae_gamma": Alias("gamma"),
    "normalize_advantages": WHITEN,
    "kl_type": Alias("kl_penalty"),
    "reference_policy_kl_penalty": Alias("kl_coef"),
    "reference_policy_kl_type": Alias("kl_penalty"),
    "overlong_filtering": MASK_TRUNCATED,
}
ROLL = {
    **LAMBD,
    "adv_estimator": CHOSEN,
    "whiten_advantages": WHITEN,
    "advantage_clip": Alias("clip", whitening=True),
    "max_len_mask": MASK_TRUNCATED,
}
#: Sums of rewards: ROLL's `reinforce` counts a step on masked tokens, and whitens as its GAE does.
ROLL_SUMS = {
    **ROLL,
    "adv_estimator": Alias(read=roll_sums),
    "whiten_advantages": Alias(whitening=True, read=as_roll_whitens),
}
SLIME = {**LAMBD, "advantage_estimator": CHOSEN, "normalize_advantages": WHITEN}
SKYRL = {
    **LAMBD,
    "advantage_estimator": CHOSEN,
    "loss_reduction": Alias("loss_agg_mode"),
    "max_seq_len": Alias("loss_scale_factor"),
    "micro_batch_size": CHOSEN,
    "prompt_boundaries": Alias(read=prompts_by_place),
}
SKYRL_GAE = {**SKYRL, "advantage_batch_normalize": once_more(less_the_mean_of_all_cells(True))}
#: Masked tokens are 0 by then, and so is the mean of all cells.
SKYRL_REINFORCE = {
    **SKYRL,
    "advantage_batch_normalize": once_more({"ddof": 0, "eps_placement": "floor"}),
}


def controller(value: Any) -> Mapping[str, Any]:
    """verl's `kl_ctrl`: a coefficient that does something where use_kl_in_reward is true as well."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise ValueError("give an object of type and kl_coef.")
    if value.get("type", "fixed") != "fixed":
        raise ValueError(
            "the coefficient of an adaptive controller follows every step since the run began. Give type "
            "fixed and the kl_coef of this step, which the trainer logs as actor/reward_kl_penalty_coeff."
        )
    return {"kl_coef": value.get("kl_coef", 0.001), "use_kl_in_reward": False}


KL_CONTROLLER = Alias(read=controller)
VERL = {"adv_estimator": CHOSEN}
TRL_PPO = {"kl_estimator": Alias("kl_penalty")}
AREAL = {
    "discount": Alias("gamma"),
    "gae_lambda": Alias("lam"),
    "kl_ctl": Alias("kl_coef"),
    "kl_estimator": Alias("kl_penalty"),
    "reward_clip": Alias(read=around_zero),
    "adv_norm": Alias(whitening=True, read=two_levels),
}
TORCHRL = {"lmbda": Alias("lam"), "average_gae": WHITEN}
