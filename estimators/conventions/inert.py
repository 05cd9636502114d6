"""Configuration keys that frameworks have and that change nothing where they do not belong: a whole
configuration can be pasted."""

from dataclasses import fields, replace

from estimators.conventions.convention import Convention
from estimators.conventions.keys import KL_CONTROLLER

_OPENRLHF = (
    "estimator", "advantage_estimator", "gamma", "lambd", "no_std_norm", "n_samples_per_prompt", "init_coef",
    "init_kl_coef", "use_loss",
)  # fmt: skip
_NEMO = (
    "name", "gae_lambda", "gae_gamma", "gae_lambda_value", "gae_lambda_policy", "length_adaptive_alpha",
    "normalize_advantages", "normalize_rewards", "use_leave_one_out_baseline", "minus_baseline",
    "reward_weights", "epsilon", "token_level_loss", "use_dynamic_sampling",
)  # fmt: skip
_TRL = (
    "num_generations", "scale_rewards", "multi_objective_aggregation", "loss_type", "beta", "epsilon",
    "gamma", "lam", "cliprange", "importance_sampling_level", "num_iterations",
)  # fmt: skip
#: By what a convention calls its framework. Keys of losses and filters are those that act elsewhere.
INERT: dict[str, tuple[str, ...]] = {
    "verl": ("adv_estimator", "gamma", "lam", "epsilon", "norm_adv_by_std_in_grpo", "num_repeat", "f_norm",
             "handle_zero_tail", "use_pf_ppo", "pf_ppo", "filter_groups", "gdpo_reward_keys",
             "gdpo_reward_weights", "rollout_correction", "_target_"),
    "trl": _TRL,
    "openrlhf": _OPENRLHF,
    "nemo-rl": _NEMO,
    "skyrl": ("advantage_estimator", "gamma", "lambd", "epsilon", "grpo_norm_by_std", "use_kl_loss",
              "kl_loss_coef", "kl_estimator_type", "zero_variance_filter"),
    "slime": ("advantage_estimator", "gamma", "lambd", "n_samples_per_prompt", "rollout_batch_size",
              "grpo_std_normalization"),
    "areal": ("discount", "gae_lambda", "group_size", "std_unbiased", "eps"),
    "roll": ("adv_estimator", "gamma", "lambd", "n_sample", "num_return_sequences_in_group"),
    "open-instruct": ("num_samples_per_prompt_rollout", "filter_zero_std_samples", "beta",
                      "loss_denominator"),
    "prime-rl": ("algo", "type", "group_size", "filter_zero_advantages"),
    "rllm": ("adv_estimator", "estimator", "gamma", "lam", "epsilon", "norm_adv_by_std_in_grpo"),
    "tinker": ("group_size", "remove_constant_reward_groups"),
    "torchrl": ("gamma", "lmbda"),
}  # fmt: skip


def with_inert(convention: Convention) -> Convention:
    """The convention, which also takes those keys of its framework that are neither its own nor read."""
    own = {each.name for each in fields(convention.params)}
    keys = INERT.get(convention.framework or "", ())
    aliases = (
        {**convention.aliases, "kl_ctrl": KL_CONTROLLER}
        if convention.framework == "verl"
        else convention.aliases
    )
    inert = tuple(key for key in keys if key not in own | aliases.keys())
    return replace(convention, aliases=aliases, inert=inert)
