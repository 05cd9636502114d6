"""Configuration keys of the group estimators, by framework, and how they are read."""

from collections.abc import Callable, Mapping
from typing import Any

from estimators.conventions.convention import Alias
from estimators.conventions.keys import (
    BATCH_NORMALIZE,
    CHOSEN,
    DROP_TRUNCATED,
    MASK_TRUNCATED,
    WHITEN,
    around_zero,
    as_roll_whitens,
    over_the_batch,
    prompts_by_place,
    two_levels,
)

Keys = Mapping[str, Alias]


def one_of(settings: Mapping[Any, Mapping[str, Any]]) -> Callable[[Any], Mapping[str, Any]]:
    """Settings by the values that a key may have."""

    def read(value: Any) -> Mapping[str, Any]:
        for allowed, chosen in settings.items():
            if type(value) is type(allowed) and value == allowed:
                return chosen
        raise ValueError(f"give one of {', '.join(repr(each) for each in settings)}.")

    return read


def only(value: Any, instead: str) -> Alias:
    """A key whose one value the convention's name already says; `instead` names what to use for others."""

    def read(given: Any) -> Mapping[str, Any]:
        if given != value:
            raise ValueError(f"this convention has {value!r}; use {instead}.")
        return {}

    return Alias(read=read)


def clip(value: Any) -> Mapping[str, Any]:
    """A range for the advantages of rollouts."""
    if value is None:
        return {"advantage_clip_low": None, "advantage_clip_high": None}
    if not isinstance(value, (list, tuple)) or len(value) != 2:
        raise ValueError("give two numbers, the least and the greatest, or null.")
    return {"advantage_clip_low": value[0], "advantage_clip_high": value[1]}


def over_responses(value: Any) -> Mapping[str, Any]:
    return over_the_batch(value)


_LEVELS = {"batch": "batch", "group": "group", None: "none", "none": "none"}
_MEAN = one_of({name: {"mean_level": level} for name, level in _LEVELS.items()})
_STD = one_of({name: {"scale_rewards": level} for name, level in _LEVELS.items()})
_DDOF = Alias(read=one_of({True: {"ddof": 1}, False: {"ddof": 0}}))
_STD_FLAG = Alias("norm_adv_by_std_in_grpo")


def _leave_one_out(value: Any) -> Mapping[str, Any]:
    """AReaL's mean without the value itself: a group of one then has nothing taken off."""
    if not isinstance(value, bool):
        raise ValueError("give true or false.")
    return {"mean_leave1out": value, "singleton": "raw" if value else "zero"}


def _mc_advantage(value: Any) -> Mapping[str, Any]:
    """torchrl's `MCAdvantage`: unless `trajectory_return` is given it standardises step by step."""
    return {"group_size": value, "trajectory_return": "none", "epsilon": 1e-6}


VERL: Keys = {"adv_estimator": CHOSEN, "grpo_norm_by_std": _STD_FLAG}
#: The trainer does not pass the flag on.
VERL_VECTORIZED: Keys = {"adv_estimator": CHOSEN, "norm_adv_by_std_in_grpo": CHOSEN}


def _std_epsilon(value: Any) -> Mapping[str, Any]:
    """The ε beside the std; `epsilon` of a trainer's configuration is the clip range of its loss."""
    if isinstance(value, (int, float)) and value > 0.01:
        raise ValueError(
            "in TRL's configuration that is the clip range of the loss, which changes no advantage; leave it "
            "out. As the ε beside the std give at most 0.01, or use the estimator without a convention."
        )
    return {"epsilon": value}


_EPSILON = Alias(read=_std_epsilon)
TRL: Keys = {
    "epsilon": _EPSILON,
    "mask_truncated_completions": MASK_TRUNCATED,
    "num_generations": Alias("group_size"),
    "scale_rewards": Alias(
        read=one_of(
            {
                "group": {"scale_rewards": "group"},
                "batch": {"scale_rewards": "batch"},
                "none": {"scale_rewards": "none"},
                True: {"scale_rewards": "group"},
                False: {"scale_rewards": "none"},
            }
        )
    ),
    "multi_objective_aggregation": only("sum_then_normalize", "gdpo/trl for normalize_then_sum"),
}
TRL_CENTRED: Keys = {
    "mask_truncated_completions": MASK_TRUNCATED,
    "num_generations": Alias("group_size"),
    "scale_rewards": Alias(read=one_of({"none": {}, False: {}})),
    "multi_objective_aggregation": only("sum_then_normalize", "gdpo/trl for normalize_then_sum"),
    "epsilon": CHOSEN,
}
TRL_GDPO: Keys = {
    "epsilon": _EPSILON,
    "mask_truncated_completions": MASK_TRUNCATED,
    "num_generations": Alias("group_size"),
    "scale_rewards": CHOSEN,
    "multi_objective_aggregation": only("normalize_then_sum", "grpo/trl-group for sum_then_normalize"),
}
TRL_RLOO: Keys = {
    "mask_truncated_completions": MASK_TRUNCATED,
    "num_generations": Alias("group_size"),
    "beta": Alias("kl_coef"),
    "normalize_advantages": Alias(whitening=True, read=over_responses),
}
#: For estimators without a discount: OpenRLHF's γ and λ change nothing there.
OPENRLHF: Keys = {
    "estimator": CHOSEN,
    "gamma": CHOSEN,
    "lambd": CHOSEN,
    "no_std_norm": CHOSEN,
    "n_samples_per_prompt": Alias("group_size"),
    "init_coef": Alias("kl_coef"),
    "init_kl_coef": Alias("kl_coef"),
    "kl_estimator": Alias("kl_penalty"),
    "reward_clip_range": Alias(read=clip),
    "clip_range": Alias(read=clip),
    "overlong_buffer_len": Alias("overlong_tokens"),
}
OPENRLHF_WHITENED: Keys = {**OPENRLHF, "no_std_norm": Alias("scale", whitening=True, negate=True)}
NEMO: Keys = {
    "overlong_filtering": MASK_TRUNCATED,
    "normalize_rewards": _STD_FLAG,
    "kl_type": Alias("kl_penalty"),
    "reference_policy_kl_penalty": Alias("kl_coef"),
    "reference_policy_kl_type": Alias("kl_penalty"),
}
SLIME: Keys = {
    "advantage_estimator": CHOSEN,
    "n_samples_per_prompt": Alias("group_size"),
    "rollout_batch_size": Alias("group_count"),
    "normalize_advantages": WHITEN,
    "grpo_std_normalization": _STD_FLAG,
    "disable_grpo_std_normalization": Alias("norm_adv_by_std_in_grpo", negate=True),
}
SLIME_CENTRED: Keys = {
    "advantage_estimator": CHOSEN,
    "n_samples_per_prompt": Alias("group_size"),
    "rollout_batch_size": Alias("group_count"),
    "normalize_advantages": WHITEN,
    "grpo_std_normalization": CHOSEN,
    "disable_grpo_std_normalization": CHOSEN,
}
AREAL_NORM: Keys = {
    "mean_level": Alias(read=_MEAN),
    "std_level": Alias(read=_STD),
    "mean_leave1out": Alias(read=_leave_one_out),
    "std_unbiased": _DDOF,
    "eps": Alias("epsilon"),
}


def _areal_norm(value: Any) -> Mapping[str, Any]:
    """AReaL's `reward_norm`; a key that is not given is as AReaL has it."""
    if not isinstance(value, Mapping):
        raise ValueError("give an object of mean_level, std_level, group_size and so on.")
    settings: dict[str, Any] = {}
    for name, given in ({"mean_level": "group", "std_level": "group"} | dict(value)).items():
        if name not in AREAL_NORM and name != "group_size":
            raise ValueError(f"it has no {name!r}.")
        settings |= AREAL_NORM[name].settings(name, given) if name in AREAL_NORM else {name: given}
    return settings


AREAL_GRPO: Keys = {
    **AREAL_NORM,
    "reward_norm": Alias(read=_areal_norm),
    "adv_norm": Alias(whitening=True, read=two_levels),
    "reward_clip": Alias(read=around_zero),
}
AREAL_BATCH: Keys = {
    "mean_level": only("batch", "grpo/areal"),
    "std_level": only("batch", "grpo/areal"),
    "mean_leave1out": only(False, "grpo/areal"),
    "std_unbiased": _DDOF,
    "eps": Alias("epsilon"),
    "group_size": CHOSEN,
}
AREAL_RLOO: Keys = {
    "mean_level": only("group", "grpo/areal"),
    "std_level": only(None, "grpo/areal"),
    "mean_leave1out": only(True, "grpo/areal"),
    "std_unbiased": CHOSEN,
    "eps": CHOSEN,
}
ROLL_NORM: Keys = {
    "whiten_advantages": Alias(whitening=True, read=as_roll_whitens),
    "advantage_clip": Alias("clip", whitening=True),
    "max_len_mask": MASK_TRUNCATED,
    "adv_estimator": CHOSEN,
    "norm_mean_type": Alias(read=_MEAN),
    "norm_std_type": Alias(read=_STD),
    "n_sample": Alias("group_size"),
    "num_return_sequences_in_group": Alias("group_size"),
}
ROLL_BATCH: Keys = {
    "norm_mean_type": only("batch", "grpo/roll"),
    "norm_std_type": only("batch", "grpo/roll"),
    "n_sample": CHOSEN,
}
ROLL_RUNNING: Keys = {
    "norm_mean_type": only("running", "grpo/roll"),
    "norm_std_type": only("running", "grpo/roll"),
    "n_sample": CHOSEN,
}
OPEN_INSTRUCT: Keys = {
    "mask_truncated_completions": DROP_TRUNCATED,
    "num_samples_per_prompt_rollout": Alias("group_size"),
    "advantage_normalization_type": Alias(
        read=one_of({"standard": {"scale_rewards": "group"}, "centered": {"scale_rewards": "none"}})
    ),
}
OPEN_INSTRUCT_CENTRED: Keys = {
    "mask_truncated_completions": DROP_TRUNCATED,
    "num_samples_per_prompt_rollout": Alias("group_size"),
    "advantage_normalization_type": only("centered", "grpo/open-instruct for standard"),
}
RLLM: Keys = {}
#: Estimators to which rLLM's switch and ε mean nothing.
RLLM_PLAIN: Keys = {"norm_adv_by_std_in_grpo": CHOSEN, "epsilon": CHOSEN}
TORCHRL: Keys = {
    "grpo_size": Alias(read=_mc_advantage),
    "eps": Alias("epsilon"),
    "trajectory_return": Alias(
        read=one_of(
            {name: {"trajectory_return": name} for name in ("sum", "max", "mean", "none")}
            | {None: {"trajectory_return": "none"}}
        )
    ),
}
SKYRL: Keys = {
    "advantage_estimator": CHOSEN,
    "grpo_norm_by_std": _STD_FLAG,
    "advantage_batch_normalize": BATCH_NORMALIZE,
    "loss_reduction": Alias("loss_agg_mode"),
    "max_seq_len": Alias("loss_scale_factor"),
    "micro_batch_size": CHOSEN,
    "prompt_boundaries": Alias(read=prompts_by_place),
}
#: These group by what belongs together, so the size of a group says nothing more.
PRIME: Keys = {"algo": CHOSEN, "group_size": CHOSEN}
TINKER: Keys = {"kl_penalty_coef": Alias("kl_coef"), "group_size": CHOSEN}
GDPO_VERL: Keys = {
    "adv_estimator": CHOSEN,
    "gdpo_reward_keys": Alias("reward_keys"),
    "gdpo_reward_weights": Alias("reward_weights"),
}
ATROPOS: Keys = {"group_size": CHOSEN}
