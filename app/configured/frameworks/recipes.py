"""rLLM, prime-rl, open-instruct, torchrl, tinker-cookbook and atropos."""

from collections.abc import Mapping

from app.configured.effects import Choice, Framework, chooses, nothing, sets, unless
from app.configured.frameworks import common as why
from app.configured.header import Settings

RLLM = Framework(
    name="rllm",
    called=("rllm",),
    source="rLLM 0.3.0.pre",
    estimators={
        "grpo": "grpo/rllm", "rloo": "rloo/rllm", "prpo": "batch_z/rllm",
        "reinforce_plus_plus_baseline": "reinforce_plus_plus_baseline/rllm",
        "reinforce++_baseline": "reinforce_plus_plus_baseline/rllm",
    },
    by_default="grpo/rllm",
    keys={
        "adv_estimator": chooses(why.CHOOSES),
        "estimator": chooses(why.CHOOSES),
        "norm_adv_by_std_in_grpo": sets(why.SCALE),
        "epsilon": sets("ε beside the std"),
        "reward_weights": sets(why.WEIGHTS),
        "estimator_map": unless("other estimators for some roles", None, {}),
        "stepwise_advantage_mode": unless(why.NOT_HERE, None, "broadcast"),
        "stepwise_advantage": unless(why.NOT_HERE, None, False),
        "use_precomputed_advantage": unless(why.OTHER_FUNCTION, None, False),
        "normalize_by_steps": unless(why.NOT_HERE, None, False),
        **nothing("the trainer's workflow gives it to the environment", "workflow"),
        **nothing("no estimator here discounts", "gamma", "lam"),
        **nothing(why.KL_LOSS, "kl_beta"),
        **nothing(why.ROWS, "mask_env_done", "mask_error", "mask_max_prompt_length_exceeded", "mask_timeout",
                  "mask_max_response_length_exceeded", "mask_max_turns_exceeded", "mask_unknown",
                  "compact_filtering", "rejection_sample", "rejection_sampling",
                  "filter_uniform_groups", "filter_token_mismatch", "overlong_filter",
                  "mask_truncated_samples"),
        **nothing(why.POLICY, "rollout_correction"),
        **nothing(why.RECORDED, "reward_bonus_coeff"),
    },
)  # fmt: skip


def _prime(said: Settings, name: str | None) -> Choice:
    """prime-rl's GRPO centres; its length penalty has weights of its own."""
    found = None if name is None else _PRIME.get(name)
    penalty = said.values.get("length_penalty")
    if found != "dr_grpo/prime-rl" or penalty is None:
        return Choice(found)
    if not isinstance(penalty, Mapping) or penalty.get("type", "linear") != "linear":
        return Choice(unclear=("length_penalty",))
    return Choice(found, {name: penalty.get(name, usual) for name, usual in _PENALTY.items()})


_PENALTY = {"num_output_tokens_weight": 0.25, "num_input_tokens_weight": 0.1, "num_turns_weight": 0.1}
_PRIME = {
    "grpo": "dr_grpo/prime-rl", "echo": "dr_grpo/prime-rl", "dr_grpo": "dr_grpo/prime-rl",
    "max_rl": "maxrl/prime-rl", "maxrl": "maxrl/prime-rl", "rae": "rae/prime-rl",
}  # fmt: skip
PRIME = Framework(
    name="prime-rl",
    called=("prime-rl",),
    source="prime-rl 0.8.0",
    estimators=_PRIME,
    choose=_prime,
    by_default="dr_grpo/prime-rl",
    keys={
        "adv_estimator": chooses(why.CHOOSES),
        "algo": chooses(why.CHOOSES),
        "algo.type": chooses(why.CHOOSES),
        "length_penalty": chooses("a share of the group's mean, by length"),
        "decay": sets("RAE: how much of the running mean is kept"),
        "reward_weights": sets(why.WEIGHTS),
        **nothing(why.ROWS, "filter_zero_advantages", "gates", "filters"),
        **nothing("ECHO: which rows are used", "filter"),
        **nothing(why.LOSS, "kl_tau", "kl_mask_low", "kl_mask_high", "dppo_mask_high",
                  "dppo_mask_low", "token_mask_high", "token_mask_low",
                  "adv_tau"),
    },
)  # fmt: skip


def _open_instruct(said: Settings, name: str | None) -> Choice:
    """What it calls GRPO was divided by the std in one version and is not in another, unless it is told."""
    kind = said.word("advantage_normalization_type") or name
    found = {"standard": "grpo/open-instruct", "centered": "dr_grpo/open-instruct",
             "dr_grpo": "dr_grpo/open-instruct"}.get(kind or "")  # fmt: skip
    if found is None and name in ("grpo", "grpo_fast"):
        return Choice(unclear=("advantage_normalization_type",))
    return Choice(found)


OPEN_INSTRUCT = Framework(
    name="open-instruct",
    called=("open-instruct",),
    source="open-instruct e6c3044a",
    estimators={},
    choose=_open_instruct,
    by_default="dr_grpo/open-instruct",
    keys={
        "adv_estimator": chooses(why.CHOOSES),
        "advantage_normalization_type": chooses("standard divides by the std, centered does not"),
        "num_samples_per_prompt_rollout": sets(why.SIZE),
        "group_size": sets(why.SIZE),
        "mask_truncated_completions": sets("truncated rollouts out of the batch"),
        "reward_weights": sets(why.WEIGHTS),
        **nothing(why.KL_LOSS, "beta", "kl_estimator", "load_ref_policy"),
        **nothing(why.POLICY, "rho_mask_lower_bound", "rho_mask_upper_bound", "rho_mask_sequence_level",
                  "rho_mask_tv_divergence"),
        **nothing(why.ROWS, "filter_zero_std_samples", "active_sampling", "no_resampling_pass_rate"),
        **nothing("the recorded mask has it", "mask_tool_use"),
        **nothing(why.RECORDED, "additive_format_reward", "r1_style_format_reward",
                  "apply_r1_style_format_reward", "apply_verifiable_reward", "verification_reward",
                  "reward_aggregator", "code_pass_rate_reward_threshold", "code_apply_perf_penalty",
                  "non_stop_penalty", "non_stop_penalty_value", "apply_evolving_rubric_reward"),
        **nothing(why.LOSS, "loss_denominator"),
        **nothing(why.MODEL, "set_weight_decay_on_bias_and_norm"),
    },
)  # fmt: skip
TORCHRL = Framework(
    name="torchrl",
    called=("torchrl",),
    source="torchrl 0.14.1",
    estimators={"grpo": "grpo/torchrl", "gae": "gae/torchrl", "ppo": "gae/torchrl"},
    keys={
        "adv_estimator": chooses(why.CHOOSES),
        "gamma": sets(why.GAMMA),
        "lmbda": sets(why.LAMBDA),
        "lam": sets(why.LAMBDA),
        "average_gae": sets(why.WHITENS),
        "grpo_size": sets("MCAdvantage: rollouts of a prompt; standardised token by token"),
        "trajectory_return": sets("how token rewards become one score"),
        "eps": sets("least std"),
        "reward_weights": sets(why.WEIGHTS),
        **nothing(why.KL_LOSS, "kl_to_ref_coeff", "kl_to_inference_coeff", "kl_mask_threshold", "kl_coef"),
        **nothing(why.LOSS, "masking_strategy"),
        **nothing("the name of a field", "advantage_key", "rewards_key", "value_key"),
        **nothing(why.ROWS, "keep_return_bounds"),
    },
)
TINKER = Framework(
    name="tinker",
    called=("tinker", "tinker-cookbook"),
    source="tinker-cookbook 0.6.1",
    estimators={"grpo": "dr_grpo/tinker", "dr_grpo": "dr_grpo/tinker", "centered": "dr_grpo/tinker"},
    by_default="dr_grpo/tinker",
    keys={
        "adv_estimator": chooses(why.CHOOSES),
        "kl_penalty_coef": sets("β of the KL, which is centred and added to the advantages"),
        "kl_coef": sets("β of the KL, which is centred and added to the advantages"),
        "kl_discount_factor": sets("discount of later tokens' KL"),
        "reward_weights": sets(why.WEIGHTS),
        **nothing("which model the KL is to", "kl_reference_config"),
        **nothing(why.ROWS, "remove_constant_reward_groups"),
        **nothing(why.LOGGING, "compute_post_kl"),
    },
)
ATROPOS = Framework(
    name="atropos",
    called=("atropos",),
    source="atropos 296a0bc5",
    estimators={"process_grpo": "process_grpo/atropos"},
    keys={
        "adv_estimator": chooses(why.CHOOSES),
        "reward_weights": sets(why.WEIGHTS),
        **nothing(why.ROWS, "ensure_scores_are_not_same"),
        **nothing(why.KL_LOSS, "kl_coef"),
    },
)
