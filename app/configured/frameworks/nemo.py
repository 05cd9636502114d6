"""NeMo-RL."""

from app.configured.effects import Choice, Framework, chooses, nothing, sets, unless
from app.configured.frameworks import common as why
from app.configured.header import Settings

_NAMES = {
    "grpo": "grpo/nemo-loo", "gspo": "grpo/nemo-loo", "dapo": "grpo/nemo-loo", "cispo": "grpo/nemo-loo",
    "gdpo": "gdpo/nemo", "gae": "gae/nemo", "ppo": "gae/nemo",
    "reinforce_plus_plus": "reinforce_plus_plus/nemo", "reinforce++": "reinforce_plus_plus/nemo",
    "rloo": "rloo/nemo",
}  # fmt: skip


def _choose(said: Settings, name: str | None) -> Choice:
    """Of GRPO, a baseline with or without the rollout itself, and a division or none."""
    found = None if name is None else _NAMES.get(name)
    if found in ("reinforce_plus_plus/nemo", "gae/nemo"):
        return _with_kl(said, found)
    if found != "grpo/nemo-loo":
        return Choice(found)
    plain = said.flag("normalize_rewards") is False
    if said.flag("use_leave_one_out_baseline") is False:
        return Choice("grpo/nemo", {"norm_adv_by_std_in_grpo": False} if plain else {})
    return Choice("rloo/nemo" if plain else found)


def _with_kl(said: Settings, found: str) -> Choice:
    """The KL is a term of the loss, unless the switch says that it is in the reward."""
    if found == "reinforce_plus_plus/nemo" and said.flag("minus_baseline") is False:
        return Choice(unclear=("minus_baseline",))
    loss = "reference_policy_kl_penalty" in said.values and "use_kl_in_reward" not in said.values
    return Choice(found, {"use_kl_in_reward": False} if loss else {})


_SHAPED = "changes the reward before it is compared; whether the recorded one has it is not known"
NEMO = Framework(
    name="nemo-rl",
    called=("nemo", "nemo-rl", "nemorl"),
    source="NeMo-RL 0.6.0",
    estimators=_NAMES,
    choose=_choose,
    by_default="grpo/nemo-loo",
    keys={
        "adv_estimator": chooses(why.CHOOSES),
        "normalize_rewards": chooses("whether a centred score is divided by a std"),
        "use_leave_one_out_baseline": chooses("whether a rollout is in its own baseline"),
        "minus_baseline": chooses("REINFORCE++: whether the group's mean is taken off"),
        "normalize_advantages": sets(why.WHITENS),
        "gae_lambda": sets(why.LAMBDA),
        "gae_gamma": sets(why.GAMMA),
        "gamma": sets(why.GAMMA),
        "lam": sets(why.LAMBDA),
        "gae_lambda_policy": sets("λ of the policy, apart from that of the returns", "lam", ("gae",)),
        "gae_lambda_value": sets("λ of the returns"),
        "length_adaptive_alpha": sets("λ by the length of the rollout"),
        "reward_weights": sets(why.WEIGHTS),
        "advantage_clip_low": sets("bounds of the advantages"),
        "advantage_clip_high": sets("bounds of the advantages"),
        "overlong_filtering": sets("truncated rollouts out of the loss"),
        "use_kl_in_reward": sets("REINFORCE++: whether the KL is taken off the advantages"),
        "reference_policy_kl_penalty": sets("β of the KL, where it is not a term of the loss",
                                            only=("gae", "reinforce_plus_plus_baseline")),
        "reference_policy_kl_type": sets("the estimate of that KL"),
        "kl_type": sets("the estimate of that KL"),
        "kl_coef": sets("β of the KL, where it is not a term of the loss",
                        only=("gae", "reinforce_plus_plus_baseline")),
        "epsilon": sets("ε beside the std"),
        "reward_shaping": unless(_SHAPED, None, False),
        "reward_scaling": unless(_SHAPED, None, False),
        **nothing("of reward_shaping", "overlong_buffer_length", "overlong_buffer_penalty",
                  "stop_properly_penalty_coef"),
        "invalid_tool_call_advantage": unless(why.NOT_HERE, None),
        "malformed_thinking_advantage": unless(why.NOT_HERE, None),
        "on_policy_distillation": unless(why.DISTILLATION, None),
        **nothing(why.RECORDED, "reward_penalties"),
        **nothing(why.KL_LOSS, "kl_input_clamp_value", "kl_output_clamp_value",
                  "use_on_policy_kl_approximation"),
        **nothing(why.ROWS, "use_dynamic_sampling"),
        **nothing(why.POLICY, "truncated_importance_sampling_ratio",
                  "truncated_importance_sampling_ratio_min", "truncated_importance_sampling_type",
                  "seq_logprob_error_threshold",
                  "force_on_policy_ratio"),
        **nothing(why.MODEL, "skip_reference_policy_logprobs_calculation", "calculate_advantages_on_gpu"),
    },
)  # fmt: skip
