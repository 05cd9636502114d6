"""TRL, what runs TRL's trainers, and ms-swift, whose numbers are partly its own."""

from app.configured.effects import Choice, Effect, Framework, chooses, nothing, sets, unless
from app.configured.frameworks import common as why
from app.configured.header import Settings

_NAMES = {
    "grpo": "grpo/trl-group", "gspo": "grpo/trl-group", "cispo": "grpo/trl-group", "sapo": "grpo/trl-group",
    "dapo": "grpo/trl-group", "dr_grpo": "dr_grpo/trl", "drgrpo": "dr_grpo/trl", "gdpo": "gdpo/trl",
    "rloo": "rloo/trl", "ppo": "gae/trl-ppo", "gae": "gae/trl-ppo",
}  # fmt: skip
_UNSCALED = ("none", "false", "0")


def _choose(said: Settings, name: str | None) -> Choice:
    if name is None and not any(key in said.values for key in _TELLING):
        return Choice()
    found = _NAMES.get(name or "grpo")
    if found == "grpo/trl-group":
        return _grpo(said)
    return Choice(found)


#: Keys that say which of its estimators it is about where none is named: GRPO, with a choice made.
_TELLING = ("scale_rewards", "multi_objective_aggregation", "advantage_estimator")


def _grpo(said: Settings) -> Choice:
    if said.word("multi_objective_aggregation") == "normalize_then_sum":
        return Choice("gdpo/trl")
    scale = said.word("scale_rewards")
    if scale in _UNSCALED:
        return Choice("dr_grpo/trl")
    if scale in (None, "group", "batch", "true", "1"):
        return Choice("grpo/trl-batch" if scale == "batch" else "grpo/trl-group")
    return Choice(unclear=("scale_rewards",))


def _unsloth(said: Settings, name: str | None) -> Choice:
    """Unsloth turns scale_rewards off by itself with this loss."""
    found = _choose(said, name)
    if said.word("loss_type") == "dr_grpo" and found.convention in ("grpo/trl-group", "grpo/trl-batch"):
        return Choice("dr_grpo/trl")
    return found


_GROUPS = ("grpo", "dr_grpo", "gdpo", "rloo")
_GRPO: dict[str, Effect] = {
    "adv_estimator": chooses(why.CHOOSES),
    "scale_rewards": chooses(why.SCALE),
    "multi_objective_aggregation": chooses("normalize_then_sum standardises each component by itself"),
    "reward_weights": sets(why.WEIGHTS),
    "num_generations": sets(why.SIZE),
    "group_size": sets(why.SIZE),
    "mask_truncated_completions": sets("truncated rollouts out of the loss"),
    "normalize_advantages": sets("RLOO: a z-score over the batch's rollouts"),
    "reward_clip_range": sets("RLOO: bounds of the reward"),
    "beta": sets("RLOO: β of the KL in the reward; of GRPO a term of the loss", only=("rloo",)),
    "kl_coef": sets("β of the KL in the reward; of GRPO a term of the loss", only=("rloo", "gae")),
    **nothing("of the sampling", "repetition_penalty"),
    **nothing(why.LOSS, "epsilon", "epsilon_high", "delta", "loss_type", "top_entropy_quantile",
              "vespo_lambda_pos", "vespo_lambda_neg"),
    **nothing(why.POLICY, "off_policy_mask_threshold", "vllm_importance_sampling_clip_max",
              "importance_sampling_level"),
    **nothing(why.KL_LOSS, "use_bias_correction_kl"),
}  # fmt: skip
_PPO: dict[str, Effect] = {
    "gamma": sets(why.GAMMA),
    "lam": sets(why.LAMBDA),
    "kl_estimator": sets("the estimate of the KL in the reward"),
    "whiten_rewards": sets("whitens the rewards per token first"),
    "missing_eos_penalty": unless("whether the recorded reward has it is not known", None, 0),
    **nothing(why.RECORDED, "reward_model_path"),
}  # fmt: skip
TRL = Framework(
    name="trl",
    called=("trl",),
    source="TRL 1.16.0 (GRPO, RLOO), 1.9.0 (PPO)",
    estimators=_NAMES,
    choose=_choose,
    by_default="grpo/trl-group",
    keys={**_GRPO, **_PPO},
)
UNSLOTH = Framework(
    name="trl",
    called=("unsloth",),
    source="as TRL",
    estimators=_NAMES,
    choose=_unsloth,
    by_default="grpo/trl-group",
    keys={**_GRPO, **_PPO, "loss_type": chooses("dr_grpo turns scale_rewards off")},
)

#: What ms-swift divides by unless it is told: by estimator.
_SWITCH = {"true": "group", "false": "none"}
_SCALES = {"grpo": "group", "rloo": "none", "reinforce_plus_plus": "batch"}


def _swift(said: Settings, name: str | None) -> Choice:
    """ms-swift's three estimators, as TRL's GRPO with another mean or std where they differ from it."""
    if name in ("ppo", "gae"):
        return Choice("gae/trl-ppo")
    if name is None and not any(key in said.values for key in _TELLING):
        return Choice()
    estimator = name or "grpo"
    estimator = "grpo" if _NAMES.get(estimator) == "grpo/trl-group" else estimator
    if estimator in ("dr_grpo", "drgrpo"):
        return Choice("dr_grpo/trl")
    if estimator not in _SCALES:
        return Choice(unclear=("adv_estimator",) if name == "gdpo" else ())
    given = said.values.get("scale_rewards")
    scale = _SCALES[estimator] if given is None else said.word("scale_rewards") or ""
    scale = "none" if said.word("loss_type") == "real" else _SWITCH.get(scale, scale)
    if scale not in ("group", "batch", "none"):
        return Choice(unclear=("scale_rewards",))
    return Choice(unclear=("beta",)) if _kl(said, estimator) else _as_trl(estimator, scale)


def _as_trl(estimator: str, scale: str) -> Choice:
    if scale == "none":
        return Choice("rloo/trl" if estimator == "rloo" else "dr_grpo/trl")
    if estimator == "rloo":
        return Choice(f"grpo/trl-{scale}", {"mean_leave1out": True})
    if estimator == "reinforce_plus_plus" and scale == "batch":
        return Choice("grpo/trl-batch", {"std_around": "baseline"})
    return Choice(f"grpo/trl-{scale}")


def _kl(said: Settings, estimator: str) -> bool:
    """Whether a KL is taken off the rewards: its estimate is none that a convention here has."""
    inside = said.flag("kl_in_reward")
    inside = estimator != "grpo" if inside is None else inside
    return inside and said.number("beta") not in (None, 0.0)


SWIFT = Framework(
    name="trl",
    called=("ms-swift", "swift"),
    source="ms-swift 4.6.0",
    estimators={},
    choose=_swift,
    by_default="grpo/trl-group",
    keys={
        **_GRPO,
        **_PPO,
        "advantage_estimator": chooses(why.CHOOSES),
        "multi_objective_aggregation": unless("ms-swift has no such key", None, "sum_then_normalize"),
        "scale_rewards": chooses("group, batch, none or gdpo; unless given, by the estimator"),
        "loss_type": chooses("real leaves out every division"),
        "beta": chooses("β of the KL: in the reward with kl_in_reward, else in the loss"),
        "kl_in_reward": chooses("whether the KL is taken off the rewards; default for all but grpo"),
        "advantage_reweight": unless(why.DISTILLATION, None, "none"),
        "teacher_model": unless(why.DISTILLATION, None),
        "teacher_model_server": unless(why.DISTILLATION, None),
        "teacher_kl_coef": unless(why.DISTILLATION, None, 0),
        **nothing("of advantage_reweight", "rlsd_lambda", "rlsd_reweight_clip_range",
                  "rlsd_lambda_warmup_steps", "rlsd_lambda_decay_steps", "rlsd_negative_only"),
        **nothing(why.ROWS, "overlong_filter", "dynamic_sample", "truncation_strategy"),
        **nothing(why.RECORDED, "reward_model", "reward_adapters", "reward_model_type", "reward_template",
                  "reward_model_revision", "reward_funcs", "reward_model_plugin", "repetition_max_penalty",
                  "repetition_penalty", "center_rewards_coefficient", "external_plugins"),
        **nothing(why.LOSS, "loss_scale", "lmbda", "simpo_gamma", "sdar_loss_coef", "rpo_alpha"),
        **nothing(why.POLICY, "off_policy_sequence_mask_delta", "rollout_importance_sampling_mode"),
        **nothing(why.MODEL, "teacher_tag_key", "offload_teacher_model"),
    },
)  # fmt: skip
