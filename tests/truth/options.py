"""What a configuration of each convention may say: the framework's own keys, all of them legal."""

from typing import Any

from estimators import CONVENTIONS

Options = dict[str, Any]

_GAMMAS: tuple[Options, ...] = ({}, {"gamma": 0.99, "lam": 0.95}, {"gamma": 0.9, "lam": 1.0})
_OPENRLHF: tuple[Options, ...] = ({}, {"no_std_norm": True}, {"gamma": 0.99, "lambd": 0.95})
#: Convention -> configurations beside none at all.
OPTIONS: dict[str, tuple[Options, ...]] = {
    "gae/verl": _GAMMAS,
    "gae/verl-0.4": _GAMMAS,
    "gae/openrlhf": _OPENRLHF,
    "gae/nemo": ({}, {"gae_lambda": 0.95, "gae_gamma": 0.99}, {"normalize_advantages": False}),
    "gae/areal": (
        {},
        {"discount": 0.99, "gae_lambda": 0.9},
        {"adv_norm": {"mean_level": "batch", "std_level": "batch"}},
    ),
    "gae/skyrl": ({}, {"gamma": 0.99, "lambd": 0.95}, {"advantage_batch_normalize": True}),
    "gae/roll": ({}, {"lambd": 0.9, "whiten_advantages": False}, {"advantage_clip": 1.5}),
    "gae/slime": ({}, {"gamma": 0.99, "lambd": 0.95}, {"normalize_advantages": True}),
    "gae/trl-ppo": ({}, {"gamma": 0.99, "lam": 0.9}),
    "gae/torchrl": ({}, {"gamma": 0.99, "lmbda": 0.95}, {"average_gae": True}),
    "grpo/verl": ({}, {"norm_adv_by_std_in_grpo": True}),
    "grpo/trl-group": ({}, {"scale_rewards": "group"}, {"scale_rewards": True}),
    "grpo/trl-batch": ({"scale_rewards": "batch"},),
    "grpo/openrlhf": ({}, {"gamma": 1.0, "lambd": 1.0}),
    "grpo/nemo": ({"use_leave_one_out_baseline": False, "normalize_rewards": True},),
    "grpo/nemo-loo": ({}, {"use_leave_one_out_baseline": True, "normalize_rewards": True}),
    "grpo/slime": ({}, {"grpo_std_normalization": True}, {"normalize_advantages": True}),
    "grpo/areal": ({"reward_norm": {"mean_level": "group", "std_level": "group"}},),
    "grpo/lite-ppo": ({"reward_norm": {"mean_level": "group", "std_level": "batch"}},),
    "grpo/roll": ({"norm_mean_type": "group", "norm_std_type": "group"},),
    "grpo/open-instruct": ({"advantage_normalization_type": "standard"},),
    "grpo/torchrl": ({}, {"eps": 1e-6}),
    "grpo/skyrl": ({}, {"grpo_norm_by_std": True}, {"advantage_batch_normalize": True}),
    "dr_grpo/verl": ({"norm_adv_by_std_in_grpo": False},),
    "dr_grpo/trl": ({"scale_rewards": "none"}, {"scale_rewards": False}),
    "dr_grpo/open-instruct": ({}, {"advantage_normalization_type": "centered"}),
    "dr_grpo/slime": ({"disable_grpo_std_normalization": True}, {"grpo_std_normalization": False}),
    "dr_grpo/skyrl": ({"grpo_norm_by_std": False},),
    "rloo/trl": ({}, {"normalize_advantages": True}, {"normalize_advantages": False}),
    "rloo/nemo": ({"normalize_rewards": False, "use_leave_one_out_baseline": True},),
    "rloo/areal": ({"reward_norm": {"mean_level": "group", "mean_leave1out": True, "std_level": None}},),
    "reinforce_plus_plus/verl": ({}, {"gamma": 0.95}),
    "reinforce_plus_plus/verl-0.8": ({}, {"gamma": 0.95}),
    "reinforce_plus_plus/openrlhf": ({}, {"gamma": 0.95}),
    "reinforce_plus_plus/skyrl": ({}, {"gamma": 0.95}),
    "reinforce_plus_plus_baseline/openrlhf": ({}, {"no_std_norm": True}),
    "reinforce_plus_plus_baseline/rllm": ({}, {"norm_adv_by_std_in_grpo": True}),
    "reinforce_plus_plus/nemo": ({}, {"minus_baseline": True}),
    "gdpo/verl": (
        {},
        {"gdpo_reward_keys": ["right", "style"], "gdpo_reward_weights": [0.3, 2.0]},
    ),
    "gdpo/trl": ({"multi_objective_aggregation": "normalize_then_sum"},),
    "batch_z/areal": ({"reward_norm": {"mean_level": "batch", "std_level": "batch"}},),
    "batch_z/roll": ({"norm_mean_type": "batch", "norm_std_type": "batch"},),
    "running/roll": ({"norm_mean_type": "running", "norm_std_type": "running"},),
    "reward_to_go": ({}, {"gamma": 0.95}),
}
#: What the frameworks call the estimator, where it has another name there.
CALLED: dict[str, Options] = {
    "gae/verl-0.4": {"framework": "verl", "adv_estimator": "gae"},
    "gae/trl-ppo": {"framework": "trl", "adv_estimator": "ppo"},
    "gae/slime": {"framework": "slime", "advantage_estimator": "ppo"},
    "gae/nemo": {"framework": "nemo-rl", "adv_estimator": "gae"},
    "grpo/trl-group": {"framework": "trl"},
    "grpo/trl-batch": {"framework": "trl"},
    "grpo/trl-async": {"framework": "trl", "adv_estimator": "grpo"},
    "grpo/openrlhf": {"framework": "openrlhf", "adv_estimator": "group_norm"},
    "grpo/nemo": {"framework": "nemo-rl", "adv_estimator": "grpo"},
    "grpo/nemo-loo": {"framework": "nemo-rl", "adv_estimator": "grpo"},
    "grpo/open-instruct": {"framework": "open-instruct"},
    "grpo_vectorized/verl": {"framework": "verl", "adv_estimator": "grpo_vectorized"},
    "grpo_vectorized/verl-0.7": {"framework": "verl", "adv_estimator": "grpo_vectorized"},
    "dr_grpo/verl": {"framework": "verl", "adv_estimator": "grpo"},
    "dr_grpo/trl": {"framework": "trl"},
    "dr_grpo/openrlhf": {"framework": "openrlhf", "adv_estimator": "dr_grpo"},
    "dr_grpo/prime-rl": {"framework": "prime-rl", "adv_estimator": "grpo"},
    "dr_grpo/tinker": {"framework": "tinker", "adv_estimator": "grpo"},
    "dr_grpo/open-instruct": {"framework": "open-instruct"},
    "dr_grpo/slime": {"framework": "slime", "adv_estimator": "grpo"},
    "dr_grpo/skyrl": {"framework": "skyrl", "adv_estimator": "grpo"},
    "rloo/trl": {"framework": "trl", "adv_estimator": "rloo"},
    "rloo/nemo": {"framework": "nemo-rl", "adv_estimator": "grpo"},
    "rloo/areal": {"framework": "areal"},
    "rloo_vectorized/verl": {"framework": "verl", "adv_estimator": "rloo_vectorized"},
    "reinforce_plus_plus/verl-0.8": {"framework": "verl", "adv_estimator": "reinforce_plus_plus"},
    "reinforce_plus_plus/openrlhf": {"framework": "openrlhf", "adv_estimator": "reinforce"},
    "reinforce_plus_plus/skyrl": {"framework": "skyrl", "adv_estimator": "reinforce++"},
    "reinforce_plus_plus_baseline/openrlhf": {"framework": "openrlhf", "adv_estimator": "reinforce_baseline"},
    "gdpo/trl": {"framework": "trl"},
    "grpo/areal": {"framework": "areal"},
    "grpo/lite-ppo": {"framework": "areal"},
    "batch_z/areal": {"framework": "areal"},
    "batch_z/rllm": {"framework": "rllm", "adv_estimator": "prpo"},
    "grpo/roll": {"framework": "roll", "adv_estimator": "grpo"},
    "batch_z/roll": {"framework": "roll", "adv_estimator": "reinforce"},
    "running/roll": {"framework": "roll", "adv_estimator": "reinforce"},
    "maxrl/prime-rl": {"framework": "prime-rl", "adv_estimator": "max_rl"},
    "process_grpo/atropos": {"framework": "atropos"},
    "td_error": {"adv_estimator": "td_error"},
    "reward_to_go": {"adv_estimator": "reward_to_go"},
    "dpo_implicit_reward": {"adv_estimator": "dpo_implicit_reward"},
}


def options_of(name: str) -> tuple[Options, ...]:
    return OPTIONS.get(name, ({},))


def header_of(name: str, options: Options) -> Options:
    """What a correct run says of itself, in the framework's words."""
    convention = CONVENTIONS[name]
    usual = {"framework": convention.framework, "adv_estimator": convention.estimator}
    return {**CALLED.get(name, usual), **options}
