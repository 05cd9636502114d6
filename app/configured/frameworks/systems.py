"""SkyRL, slime, AReaL and ROLL."""

from collections.abc import Mapping

from app.configured.effects import Choice, Framework, chooses, nothing, sets, unless
from app.configured.frameworks import common as why
from app.configured.header import Settings


def _skyrl(said: Settings, name: str | None) -> Choice:
    found = None if name is None else _SKYRL.get(name)
    plain = found == "grpo/skyrl" and said.flag("grpo_norm_by_std") is False
    return Choice("dr_grpo/skyrl" if plain else found)


_SKYRL = {
    "grpo": "grpo/skyrl", "gspo": "grpo/skyrl", "cispo": "grpo/skyrl", "sapo": "grpo/skyrl",
    "dr_grpo": "dr_grpo/skyrl", "drgrpo": "dr_grpo/skyrl", "gae": "gae/skyrl", "ppo": "gae/skyrl",
    "rloo": "rloo/skyrl", "reinforce++": "reinforce_plus_plus/skyrl",
    "reinforce_plus_plus": "reinforce_plus_plus/skyrl", "maxrl": "maxrl/skyrl", "max_rl": "maxrl/skyrl",
}  # fmt: skip
SKYRL = Framework(
    name="skyrl",
    called=("skyrl", "skyrl-train"),
    source="SkyRL a9564572",
    estimators=_SKYRL,
    choose=_skyrl,
    by_default="grpo/skyrl",
    keys={
        "adv_estimator": chooses(why.CHOOSES),
        "advantage_estimator": chooses(why.CHOOSES),
        "grpo_norm_by_std": chooses(why.SCALE),
        "gamma": sets(why.GAMMA),
        "lambd": sets(why.LAMBDA),
        "lam": sets(why.LAMBDA),
        "advantage_batch_normalize": sets(why.WHITENS),
        "reward_weights": sets(why.WEIGHTS),
        "epsilon": sets("ε beside the std"),
        "use_kl_in_reward": unless("the adaptive or fixed coefficient is none that a convention here has",
                                   False, None),
        **nothing("of the KL in the reward", "kl_ctrl", "kl_estimator_type", "kl_target"),
        **nothing(why.KL_LOSS, "use_kl_loss", "kl_loss_coef", "kl_cov", "kl_cov_frac", "ppo_kl_coef"),
        **nothing(why.ROWS, "zero_variance_filter", "zero_variance_filter_tol", "dynamic_sampling",
                  "apply_overlong_filtering"),
        **nothing(why.POLICY, "off_policy_correction", "geo_mask_high", "geo_mask_low", "product_mask_high",
                  "product_mask_low", "sequence_mask_metric", "token_mask_is_threshold_high",
                  "token_mask_is_threshold_low"),
        **nothing(why.LOSS, "loss_reduction", "max_seq_len"),
        **nothing(why.RECORDED, "reward", "zero_reward_on_non_stop"),
    },
)  # fmt: skip


def _slime(said: Settings, name: str | None) -> Choice:
    found = None if name is None else _SLIME.get(name)
    if said.flag("disable_rewards_normalization") or said.flag("rewards_normalization") is False:
        return Choice(found) if found == "gae/slime" else Choice(unclear=("disable_rewards_normalization",))
    off = said.flag("disable_grpo_std_normalization") or said.flag("grpo_std_normalization") is False
    return Choice("dr_grpo/slime" if off and found == "grpo/slime" else found)


_SLIME = {
    "grpo": "grpo/slime", "gspo": "grpo/slime", "cispo": "grpo/slime", "dr_grpo": "dr_grpo/slime",
    "drgrpo": "dr_grpo/slime", "ppo": "gae/slime", "gae": "gae/slime",
}  # fmt: skip
SLIME = Framework(
    name="slime",
    called=("slime",),
    source="slime 624b824a",
    estimators=_SLIME,
    choose=_slime,
    by_default="grpo/slime",
    keys={
        "adv_estimator": chooses(why.CHOOSES),
        "advantage_estimator": chooses(why.CHOOSES),
        "disable_grpo_std_normalization": chooses(why.SCALE),
        "grpo_std_normalization": chooses(why.SCALE),
        "disable_rewards_normalization": chooses("whether the group's mean is taken off at all"),
        "rewards_normalization": chooses("whether the group's mean is taken off at all"),
        "gamma": sets(why.GAMMA),
        "lambd": sets(why.LAMBDA),
        "lam": sets(why.LAMBDA),
        "normalize_advantages": sets(why.WHITENS),
        "kl_coef": sets("PPO: β of the KL in the reward; GRPO ignores it", only=("gae",)),
        "n_samples_per_prompt": sets(why.SIZE),
        "group_size": sets(why.SIZE),
        "rollout_batch_size": sets("how many groups are expected"),
        "reward_weights": sets(why.WEIGHTS),
        "custom_advantage_function_path": unless(why.OTHER_FUNCTION, None),
        "custom_reward_post_process_path": unless(why.OTHER_FUNCTION, None),
        "disable_compute_advantages_and_returns": unless(why.OTHER_FUNCTION, None, False),
        "use_opd": unless(why.DISTILLATION, None, False),
        **nothing("of use_opd", "opd_type", "opd_kl_coef", "opd_teacher_load", "opd_teacher_ckpt_step"),
        **nothing(why.KL_LOSS, "use_kl_loss", "kl_loss_coef", "kl_loss_type", "use_unbiased_kl"),
        **nothing(why.ROWS, "dynamic_sampling_filter_path", "buffer_filter_path",
                  "rollout_sample_filter_path"),
        **nothing(why.RECORDED, "reward_key", "eval_reward_key"),
        **nothing(why.LOGGING, "log_reward_category", "ci_disable_kl_checker", "ci_save_grad_norm",
                  "ci_load_grad_norm"),
        **nothing("the recorded mask has it", "loss_mask_type", "mask_offpolicy_in_partial_rollout"),
    },
)  # fmt: skip


def _areal(said: Settings, name: str | None) -> Choice:
    """AReaL computes GAE, with values 0 where there is no critic: with γ and λ of 1 that is the score."""
    found = _AREAL.get(name or "")
    norm = said.values.get("reward_norm")
    scored = isinstance(norm, Mapping)
    if name in ("grpo", "gspo", "sapo") and not _undiscounted(said):
        return Choice(unclear=("gae_lambda", "discount"))
    if name is None and scored and _undiscounted(said) and said.values.get("adv_norm") is None:
        return Choice("grpo/areal")
    return Choice(found)


def _undiscounted(said: Settings) -> bool:
    names = ("discount", "gae_lambda", "gamma", "lam")
    return all(said.number(name) in (None, 1.0) for name in names)


_AREAL = {
    "grpo": "grpo/areal", "gspo": "grpo/areal", "sapo": "grpo/areal", "rloo": "rloo/areal",
    "lite_ppo": "grpo/lite-ppo", "gae": "gae/areal", "ppo": "gae/areal", "batch_z": "batch_z/areal",
}  # fmt: skip
AREAL = Framework(
    name="areal",
    called=("areal",),
    source="AReaL 1.0.4",
    estimators=_AREAL,
    choose=_areal,
    by_default="grpo/areal",
    keys={
        "adv_estimator": chooses(why.CHOOSES),
        "reward_norm": sets("by whose mean and std rewards are normalised"),
        "adv_norm": sets(why.WHITENS),
        "mean_level": sets("of reward_norm"),
        "std_level": sets("of reward_norm"),
        "mean_leave1out": sets("of reward_norm"),
        "std_unbiased": sets("of reward_norm"),
        "eps": sets("of reward_norm"),
        "group_size": sets(why.SIZE),
        "discount": sets(why.GAMMA),
        "gae_lambda": sets(why.LAMBDA),
        "gamma": sets(why.GAMMA),
        "lam": sets(why.LAMBDA),
        "kl_ctl": sets("β of the KL in the reward", only=("gae",)),
        "kl_coef": sets("β of the KL in the reward", only=("gae",)),
        "kl_estimator": sets("the estimate of that KL", only=("gae",)),
        "reward_scaling": sets("factor of the reward, after reward_bias", "reward_scaling"),
        "reward_bias": sets("added to the reward"),
        "reward_clip": sets("bound of the absolute reward"),
        "reward_weights": sets(why.WEIGHTS),
        "mask_no_eos_with_zero": sets("whether truncated rollouts have reward 0"),
        "overlong_tokens": sets("tokens of the ramp of the overlong penalty"),
        "overlong_penalty_factor": sets("overlong penalty at the end of the ramp"),
        "overlong_reward_penalty": chooses("whether there is an overlong penalty"),
        "gae_timestep_unit": unless(why.NOT_HERE, None, "token"),
        **nothing(why.POLICY, "rejection_sampling", "behave_imp_weight_cap"),
        **nothing(why.ROWS, "dynamic_bs", "dynamic_filter_fn"),
        **nothing(why.RECORDED, "reward_fn"),
    },
)  # fmt: skip


def _roll(said: Settings, name: str | None) -> Choice:
    levels = (said.word("norm_mean_type"), said.word("norm_std_type"))
    found = None if name is None else _ROLL.get(name)
    if "running" in levels and found == "grpo/roll":
        return Choice("running/roll") if levels[0] == levels[1] else Choice(unclear=("norm_mean_type",))
    return Choice(found)


_ROLL = {"grpo": "grpo/roll", "gae": "gae/roll", "ppo": "gae/roll"}
ROLL = Framework(
    name="roll",
    called=("roll",),
    source="ROLL 0.3.0",
    estimators=_ROLL,
    choose=_roll,
    keys={
        "adv_estimator": chooses(why.CHOOSES),
        "norm_mean_type": sets("whose mean is taken off the rewards"),
        "norm_std_type": sets("whose std they are divided by"),
        "gamma": sets(why.GAMMA),
        "lambd": sets(why.LAMBDA),
        "lam": sets(why.LAMBDA),
        "whiten_advantages": sets(why.WHITENS),
        "whiten_rewards": sets("whitens the rewards per token first"),
        "advantage_clip": sets("bound of the absolute advantage"),
        "max_len_mask": sets("truncated rollouts out of the loss"),
        "num_return_sequences_in_group": sets(why.SIZE),
        "n_sample": sets(why.SIZE),
        "group_size": sets(why.SIZE),
        "reward_weights": sets(why.WEIGHTS),
        "reward_clip": unless("whether the recorded reward has it is not known", None),
        "use_reward_scaling": unless(why.NOT_HERE, None, False),
        "use_reward_norm": unless(why.NOT_HERE, None, False),
        "add_len_reward": unless(why.NOT_HERE, None, False),
        "add_token_level_kl": unless("the adaptive coefficient is not in a header", None, False),
        "difficulty_mask": unless("whether rollouts are left out by it is not known", None, False),
        "is_pure_opd": unless(why.DISTILLATION, None, False),
        "use_opd": unless(why.DISTILLATION, None, False),
        "reward_normalization": unless(why.NOT_HERE, None, {}),
        "use_token_reward": unless(why.NOT_HERE, None, False),
        **nothing("of the estimator gigpo", "episode_reward_weight", "step_reward_weight",
                  "step_reward_gamma"),
        **nothing("the recorded mask has it", "mask_type", "dirty_data_mask"),
        **nothing("of add_token_level_kl", "kl_penalty", "init_kl_coef", "target_kl", "kl_horizon"),
        **nothing("of use_opd", "opd_kl_coef"),
        **nothing(why.KL_LOSS, "use_kl_loss", "kl_loss_coef"),
        **nothing(why.POLICY, "train_infer_correction", "filters"),
        **nothing(why.ROWS, "difficulty_low_threshold", "difficulty_high_threshold", "error_max_len_clip",
                  "is_use_additional_prompts", "query_filter_config", "response_filter_config",
                  "dataset_filter", "filter_args", "group_filter_cls"),
        **nothing(why.RECORDED, "rewards", "reward", "reward_pretrain", "reward_flow", "format_penalty",
                  "reward_manager_config", "reward_model", "reward_type", "response_length_penalty_coef"),
        **nothing(why.MODEL, "reference", "critic"),
        **nothing(why.LOGGING, "report_length_and_rewards"),
    },
)  # fmt: skip
