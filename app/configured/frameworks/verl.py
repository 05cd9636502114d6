"""verl, and EasyR1, whose functions are verl's."""

import re

from app.configured.effects import Choice, Effect, Framework, chooses, nothing, sets, unless
from app.configured.frameworks import common as why
from app.configured.header import Settings

_NAMES = {
    "gae": "gae/verl", "ppo": "gae/verl", "grpo": "grpo/verl", "gspo": "grpo/verl", "cispo": "grpo/verl",
    "sapo": "grpo/verl", "dapo": "grpo/verl", "grpo_vectorized": "grpo_vectorized/verl",
    "grpo_passk": "grpo_passk/verl", "dr_grpo": "dr_grpo/verl", "drgrpo": "dr_grpo/verl",
    "gdpo": "gdpo/verl", "reinforce_plus_plus": "reinforce_plus_plus/verl",
    "reinforce++": "reinforce_plus_plus/verl",
    "reinforce_plus_plus_baseline": "reinforce_plus_plus_baseline/verl",
    "reinforce++_baseline": "reinforce_plus_plus_baseline/verl", "remax": "remax/verl", "rloo": "rloo/verl",
    "rloo_vectorized": "rloo_vectorized/verl", "opo": "opo/verl", "gpg": "gpg/verl",
    "optimal_token_baseline": "optimal_token_baseline/verl",
    "tir_optimal_token_baseline": "tir_optimal_token_baseline/verl",
}  # fmt: skip
#: Conventions of older versions: (below this version, the convention then).
_OLDER = {
    "gae/verl": ((0, 5), "gae/verl-0.4"),
    "reinforce_plus_plus/verl": ((0, 9), "reinforce_plus_plus/verl-0.8"),
    "grpo_vectorized/verl": ((0, 8), "grpo_vectorized/verl-0.7"),
}


def _choose(said: Settings, name: str | None) -> Choice:
    found = None if name is None else _NAMES.get(name)
    if found == "grpo/verl" and said.flag("norm_adv_by_std_in_grpo") is False:
        return Choice("dr_grpo/verl")
    if found in _OLDER and (version := _version(said)) is not None and version < _OLDER[found][0]:
        return Choice(_OLDER[found][1])
    return Choice(found)


def _version(said: Settings) -> tuple[int, int] | None:
    """Of the framework, if the header has it."""
    found = re.match(r"v?(\d+)\.(\d+)", str(said.values.get("framework_version", "")))
    return None if found is None else (int(found[1]), int(found[2]))


_ALGORITHM: dict[str, Effect] = {
    "adv_estimator": chooses(why.CHOOSES),
    "framework_version": chooses("chooses among conventions of several versions"),
    "norm_adv_by_std_in_grpo": chooses(why.SCALE),
    "gamma": sets(why.GAMMA),
    "lam": sets(why.LAMBDA),
    "kl_coef": sets("β of the KL in the reward"),
    "kl_penalty": sets("the estimate of the KL in the reward"),
}
VERL = Framework(
    name="verl",
    called=("verl",),
    source="verl 0.9.1",
    estimators=_NAMES,
    choose=_choose,
    keys={
        **_ALGORITHM,
        "use_kl_in_reward": sets("whether the KL is taken off the token rewards"),
        "kl_ctrl": sets("β of the KL in the reward, if use_kl_in_reward is true"),
        "reward_weights": sets(why.WEIGHTS),
        "gdpo_reward_keys": sets("the components, and their order"),
        "gdpo_reward_weights": sets(why.WEIGHTS),
        **nothing("how often a prompt is repeated; groups are those of the file", "num_repeat"),
        "epsilon": sets("ε beside the std"),
        **nothing(why.ROWS, "filter_groups", "use_pf_ppo", "pf_ppo", "filter_overlong_prompts",
                  "filter_overlong_prompts_workers", "truncation", "filter_prompts"),
        **nothing(why.KL_LOSS, "use_kl_loss", "kl_loss_coef", "kl_loss_type", "kl_cov_ratio", "ppo_kl_coef"),
        **nothing(why.POLICY, "rollout_correction", "rollout_is_batch_normalize"),
        **nothing(why.RECORDED, "reward", "reward_model", "reward_manager", "custom_reward_function",
                  "reward_kwargs", "reward_fn_key", "overlong_buffer", "launch_reward_fn_async"),
        **nothing(why.LOSS, "loss_scale_factor", "dro_beta", "loss_agg_mode", "norm_by_std"),
        **nothing("of the adaptive coefficient", "target_kl"),
        **nothing(why.MODEL, "critic", "optim", "lr_scheduler_type", "mask_unused"),
        "distillation": unless(why.DISTILLATION, None, False, {}, {"enabled": False}),
    },
)  # fmt: skip
EASYR1 = Framework(
    name="verl",
    called=("easyr1",),
    source="EasyR1 b44b311",
    estimators=_NAMES,
    keys={
        **{key: effect for key, effect in _ALGORITHM.items() if key != "norm_adv_by_std_in_grpo"},
        "reward_weights": sets(why.WEIGHTS),
        "kl_type": unless(why.ADAPTIVE, "fixed"),
        **nothing("of the adaptive coefficient", "kl_horizon", "kl_target"),
        **nothing("whether a reference model is there at all", "disable_kl"),
        **nothing(why.KL_LOSS, "use_kl_loss"),
        **nothing(why.ROWS, "online_filtering", "filter_key", "filter_low", "filter_high",
                  "filter_overlong_prompts", "filter_overlong_prompts_workers"),
        **nothing(why.RECORDED, "reward", "reward_function", "reward_type", "reward_function_kwargs",
                  "reward_function_name"),
    },
)  # fmt: skip
