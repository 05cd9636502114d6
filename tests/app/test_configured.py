"""What a file's header says of its advantages, in the words of each framework."""

from typing import Any

import pytest

from app.configured import BY_DEFAULT, FRAMEWORKS, Configured, configured
from estimators import CONVENTIONS, Request


@pytest.mark.parametrize(
    ("framework", "estimator", "convention"),
    [
        ("verl", "AdvantageEstimator.GRPO", "grpo/verl"),
        ("verl", "rloo_vectorized", "rloo_vectorized/verl"),
        ("easyr1", "grpo", "grpo/verl"),
        ("ms-swift", "grpo", "grpo/trl-group"),
        ("nemo-rl", "grpo", "grpo/nemo-loo"),
        ("nemo-rl", "reinforce_plus_plus", "reinforce_plus_plus/nemo"),
        ("skyrl", "reinforce++", "reinforce_plus_plus/skyrl"),
        ("slime", "cispo", "grpo/slime"),
        ("slime", "ppo", "gae/slime"),
        ("prime-rl", "grpo", "dr_grpo/prime-rl"),
        ("prime_rl", "max_rl", "maxrl/prime-rl"),
        ("open-instruct", "centered", "dr_grpo/open-instruct"),
        ("rllm", "prpo", "batch_z/rllm"),
        ("tinker-cookbook", "grpo", "dr_grpo/tinker"),
        ("openrlhf", "group_norm", "grpo/openrlhf"),
        ("OpenRLHF", "reinforce", "reinforce_plus_plus/openrlhf"),
        ("torchrl", "gae", "gae/torchrl"),
        ("roll", "reinforce", None),
        ("slime", "reinforce_plus_plus_baseline", None),
    ],
)
def test_estimators_by_the_names_of_their_framework(
    framework: str, estimator: str, convention: str | None
) -> None:
    said = configured({"framework": framework, "adv_estimator": estimator})
    assert said.convention == convention
    assert convention is None or said.estimator == CONVENTIONS[convention].estimator


@pytest.mark.parametrize(
    ("header", "convention"),
    [
        ({"framework": "nemo-rl", "adv_estimator": "grpo", "use_leave_one_out_baseline": False}, "grpo/nemo"),
        ({"framework": "trl", "scale_rewards": "batch"}, "grpo/trl-batch"),
        ({"framework": "trl", "scale_rewards": "none"}, "dr_grpo/trl"),
        ({"framework": "skyrl", "adv_estimator": "grpo", "grpo_norm_by_std": False}, "dr_grpo/skyrl"),
        ({"framework": "verl", "adv_estimator": "grpo", "norm_adv_by_std_in_grpo": False}, "dr_grpo/verl"),
    ],
)
def test_switches_of_a_framework_choose_the_convention(header: dict[str, Any], convention: str) -> None:
    assert configured(header).convention == convention


def test_defaults_are_conventions_of_frameworks_that_are_known() -> None:
    assert set(BY_DEFAULT) <= {each.name for each in FRAMEWORKS}
    assert set(BY_DEFAULT.values()) <= set(CONVENTIONS)


HEADERS: list[tuple[dict[str, Any], str | None, dict[str, Any]]] = [
    # TRL
    ({"framework": "trl", "scale_rewards": True}, "grpo/trl-group", {}),
    ({"framework": "trl", "scale_rewards": "group"}, "grpo/trl-group", {}),
    ({"framework": "trl", "scale_rewards": "True"}, "grpo/trl-group", {}),
    ({"framework": "trl", "scale_rewards": False}, "dr_grpo/trl", {}),
    ({"framework": "trl", "scale_rewards": "false"}, "dr_grpo/trl", {}),
    ({"framework": "trl", "scale_rewards": "batch", "beta": 0.04}, "grpo/trl-batch", {}),
    ({"framework": "trl", "multi_objective_aggregation": "normalize_then_sum"}, "gdpo/trl", {}),
    ({"framework": "trl", "adv_estimator": "grpo", "epsilon": 0.2, "epsilon_high": 0.28, "delta": 2.0},
     "grpo/trl-group", {}),
    ({"framework": "trl", "adv_estimator": "grpo", "kl_coef": 0.04, "reward_weights": [1, 0.5]},
     "grpo/trl-group",
     {"reward_weights": [1.0, 0.5]}),
    ({"framework": "trl", "adv_estimator": "rloo", "normalize_advantages": "True", "beta": "0.05"},
     "rloo/trl", {"normalize_advantages": True, "kl_coef": 0.05}),
    ({"framework": "unsloth", "adv_estimator": "grpo", "loss_type": "dr_grpo"}, "dr_grpo/trl", {}),
    ({"framework": "trl", "adv_estimator": "grpo", "loss_type": "dr_grpo"}, "grpo/trl-group", {}),
    # ms-swift
    ({"framework": "ms-swift", "advantage_estimator": "rloo"}, "rloo/trl", {}),
    ({"framework": "ms-swift", "advantage_estimator": "rloo", "scale_rewards": "group"}, "grpo/trl-group",
     {"mean_leave1out": True}),
    ({"framework": "ms-swift", "advantage_estimator": "reinforce_plus_plus"}, "grpo/trl-batch",
     {"std_around": "baseline"}),
    ({"framework": "ms-swift", "adv_estimator": "grpo", "scale_rewards": None}, "grpo/trl-group", {}),
    # OpenRLHF
    ({"framework": "openrlhf", "adv_estimator": "gae", "no_std_norm": "true", "lambd": "0.95",
      "init_kl_coef": "1e-3"}, "gae/openrlhf", {"no_std_norm": True, "lam": 0.95, "kl_coef": 0.001}),
    ({"framework": "openrlhf", "command": "train_ppo_ray --advantage_estimator reinforce --gamma 0.99"},
     "reinforce_plus_plus/openrlhf", {"gamma": 0.99}),
    ({"framework": "openrlhf", "args": ["--algo.advantage.estimator", "group_norm", "--algo.kl.estimator",
      "k3", "--algo.advantage.gamma", "0.9"]}, "grpo/openrlhf", {"kl_penalty": "k3"}),
    # NeMo-RL
    ({"framework": "nemo-rl", "adv_estimator": "grpo", "normalize_rewards": False}, "rloo/nemo", {}),
    ({"framework": "nemo-rl", "adv_estimator": "grpo", "normalize_rewards": "false",
      "use_leave_one_out_baseline": "false"}, "grpo/nemo", {"norm_adv_by_std_in_grpo": False}),
    ({"framework": "nemo-rl", "grpo": {"adv_estimator": {"name": "gdpo", "reward_weights": [1, 2]}}},
     "gdpo/nemo", {"reward_weights": [1.0, 2.0]}),
    ({"framework": "nemo-rl", "adv_estimator": "ppo", "gae_lambda": 0.9, "gae_gamma": 0.99,
      "normalize_advantages": False}, "gae/nemo", {"lam": 0.9, "gamma": 0.99, "normalize_advantages": False}),
    ({"framework": "nemo-rl", "adv_estimator": "reinforce_plus_plus",
      "loss_fn": {"reference_policy_kl_penalty": 0.01}}, "reinforce_plus_plus/nemo",
     {"use_kl_in_reward": False, "kl_coef": 0.01}),
    # verl
    ({"framework": "verl", "algorithm.adv_estimator": "gae", "algorithm.gamma": "0.99",
      "algorithm.lam": 0.95}, "gae/verl", {"gamma": 0.99, "lam": 0.95}),
    ({"framework": "verl", "algorithm": {"adv_estimator": "gae", "use_kl_in_reward": True,
      "kl_ctrl": {"type": "fixed", "kl_coef": 0.01}}}, "gae/verl",
     {"use_kl_in_reward": True, "kl_coef": 0.01}),
    ({"framework": "verl", "adv_estimator": "gae", "use_kl_in_reward": False,
      "kl_ctrl": {"kl_coef": 0.01}}, "gae/verl", {"use_kl_in_reward": False, "kl_coef": 0.01}),
    ({"framework": "verl", "adv_estimator": "gdpo", "gdpo_reward_keys": ["a", "b"],
      "gdpo_reward_weights": "[0.3, 2]"}, "gdpo/verl",
     {"reward_keys": ["a", "b"], "reward_weights": [0.3, 2.0]}),
    ({"framework": "verl", "adv_estimator": "grpo", "norm_adv_by_std_in_grpo": "False"}, "dr_grpo/verl", {}),
    ({"framework": "verl", "framework_version": "0.8.1", "adv_estimator": "reinforce_plus_plus"},
     "reinforce_plus_plus/verl-0.8", {}),
    ({"framework": "verl", "adv_estimator": "grpo", "use_kl_loss": True, "kl_loss_coef": 0.001}, "grpo/verl",
     {}),
    # the others
    ({"framework": "slime", "adv_estimator": "grpo", "kl_coef": 0.1}, "grpo/slime", {}),
    ({"framework": "slime", "adv_estimator": "ppo", "kl_coef": 0.1, "lambd": 0.9}, "gae/slime",
     {"kl_coef": 0.1, "lam": 0.9}),
    ({"framework": "slime", "args": "--advantage-estimator grpo --disable-grpo-std-normalization"},
     "dr_grpo/slime", {}),
    ({"framework": "skyrl", "trainer.algorithm.advantage_estimator": "grpo",
      "trainer.algorithm.advantage_batch_normalize": True}, "grpo/skyrl",
     {"advantage_batch_normalize": True}),
    ({"framework": "areal", "actor.reward_norm.mean_level": "group", "actor.reward_norm.std_level": "batch"},
     "grpo/areal", {"mean_level": "group", "scale_rewards": "batch"}),
    ({"framework": "areal", "adv_estimator": "gae", "discount": 0.99, "gae_lambda": "0.9",
      "adv_norm": {"mean_level": "batch", "std_level": "batch"}}, "gae/areal",
     {"gamma": 0.99, "lam": 0.9, "adv_norm": {"mean_level": "batch", "std_level": "batch"}}),
    ({"framework": "roll", "adv_estimator": "grpo", "norm_mean_type": "group", "norm_std_type": None},
     "grpo/roll", {"mean_level": "group", "scale_rewards": "none"}),
    ({"framework": "roll", "adv_estimator": "gae", "lambd": 0.9, "whiten_advantages": False}, "gae/roll",
     {"lam": 0.9, "whiten_advantages": False}),
    ({"framework": "rllm", "adv_estimator": "grpo", "norm_adv_by_std_in_grpo": False}, "grpo/rllm",
     {"norm_adv_by_std_in_grpo": False}),
    ({"framework": "prime-rl", "orchestrator": {"algo": {"type": "max_rl"}}}, "maxrl/prime-rl", {}),
    ({"framework": "prime-rl", "algo": {"type": "grpo", "length_penalty": {"type": "linear"}}},
     "dr_grpo/prime-rl", {"num_output_tokens_weight": 0.25, "num_input_tokens_weight": 0.1,
                          "num_turns_weight": 0.1}),
    ({"framework": "open-instruct", "adv_estimator": "grpo", "advantage_normalization_type": "standard"},
     "grpo/open-instruct", {}),
    ({"framework": "torchrl", "adv_estimator": "gae", "lmbda": 0.9, "average_gae": True}, "gae/torchrl",
     {"lam": 0.9, "average_gae": True}),
    ({"framework": "tinker-cookbook", "adv_estimator": "grpo", "kl_penalty_coef": 0.1}, "dr_grpo/tinker",
     {"kl_coef": 0.1}),
    ({"framework": "easyr1", "adv_estimator": "grpo", "algorithm.disable_kl": True}, "grpo/verl", {}),
]  # fmt: skip


@pytest.mark.parametrize(("header", "convention", "params"), HEADERS)
def test_headers_in_the_words_of_each_framework(
    header: dict[str, Any], convention: str | None, params: dict[str, Any]
) -> None:
    said = configured(header)
    assert (said.convention, said.params, said.not_understood) == (convention, params, ())
    request = Request.from_dict({"convention": said.convention, "params": said.params})
    assert said.estimator == request.estimator


@pytest.mark.parametrize(
    ("header", "not_understood"),
    [
        ({"framework": "ms-swift", "adv_estimator": "grpo", "scale_rewards": "gdpo"}, "scale_rewards"),
        ({"framework": "ms-swift", "adv_estimator": "rloo", "beta": 0.04}, "beta"),
        ({"framework": "ms-swift", "adv_estimator": "grpo", "teacher_kl_coef": 1.0}, "teacher_kl_coef"),
        ({"framework": "trl", "scale_rewards": "median"}, "scale_rewards"),
        ({"framework": "verl", "adv_estimator": "grpo", "adv_winsorize": 0.1}, "adv_winsorize"),
        ({"framework": "verl", "adv_estimator": "gae", "kl_ctrl": {"type": "adaptive"}}, "kl_ctrl"),
        ({"framework": "verl", "adv_estimator": "gae", "gamma": "high"}, "gamma"),
        ({"framework": "nemo-rl", "adv_estimator": "grpo", "grpo.reward_scaling": {"enabled": True}},
         "reward_scaling"),
        ({"framework": "slime", "adv_estimator": "grpo", "use_opd": True}, "use_opd"),
        ({"framework": "slime", "adv_estimator": "grpo", "disable_rewards_normalization": True},
         "disable_rewards_normalization"),
        ({"framework": "areal", "adv_estimator": "gae", "gae_timestep_unit": "turn"}, "gae_timestep_unit"),
        ({"framework": "areal", "adv_estimator": "grpo", "gae_lambda": 0.9}, "gae_lambda"),
        ({"framework": "open-instruct", "adv_estimator": "grpo"}, "advantage_normalization_type"),
        ({"framework": "openrlhf", "adv_estimator": "gae", "kl_target": 6.0}, "kl_target"),
    ],
)  # fmt: skip
def test_keys_that_are_not_understood_are_listed(header: dict[str, Any], not_understood: str) -> None:
    assert not_understood in configured(header).not_understood


@pytest.mark.parametrize(
    ("header", "framework", "estimator"),
    [
        ({"framework": "trinity-rft", "adv_estimator": "asymre"}, "trinity-rft", "asymre"),
        ({"framework": "xtuner", "adv_estimator": "GRPOEstimator"}, "xtuner", "grpoestimator"),
        ({"framework": "Trinity", "adv_estimator": "grpo"}, "Trinity", None),
        ({"framework": "verl-agent", "adv_estimator": "gigpo"}, "verl-agent", "gigpo"),
        ({"framework": "verl", "adv_estimator": "gigpo"}, None, "gigpo"),
        ({"framework": "nemo-rl", "adv_estimator": "opd"}, None, "opd"),
        ({"framework": "prime-rl", "adv_estimator": "hierarchical_grpo"}, None, "hierarchical_grpo"),
        ({"adv_estimator": "of my own"}, None, "of my own"),
    ],
)
def test_what_is_not_known_is_unknown(
    header: dict[str, Any], framework: str | None, estimator: str | None
) -> None:
    said = configured(header)
    assert (said.convention, said.estimator) == (None, None)
    assert (said.unknown_framework, said.unknown_estimator) == (framework, estimator)


def test_an_estimator_without_a_framework_is_that_of_any() -> None:
    said = configured({"adv_estimator": "gae", "gamma": "0.9", "lam": 2})
    assert (said.convention, said.framework, said.estimator) == (None, None, "gae")
    assert said.params == {"gamma": 0.9} and said.unknown_framework is None


def test_a_header_about_nothing_says_nothing() -> None:
    header = {"schema": "rollout-batch", "version": 1, "run": "r", "group_size": 4, "reward_functions": ["a"],
              "max_grad_norm": 1.0, "note": "normalised"}  # fmt: skip
    assert configured(header) == Configured(params={"group_size": 4})


def test_deep_and_odd_headers_are_read_without_failing() -> None:
    deep: Any = 1
    for _ in range(200):
        deep = {"a": deep}
    odd = {"framework": "verl", "adv_estimator": ["grpo"], "gamma": "[" * 300, "a." * 5000: 1, "config": deep,
           "lam": {"x": 1}, "args": ["--gamma"], "--": None, "": {}, "algo": {"type": 3}}  # fmt: skip
    said = configured(odd)
    assert said.convention is None and "gamma" not in said.params


@pytest.mark.parametrize(
    ("header", "alternatives"),
    [
        ({"framework": "verl", "adv_estimator": "grpo"}, {"dr_grpo/verl"}),
        ({"framework": "verl", "adv_estimator": "grpo", "norm_adv_by_std_in_grpo": True}, set()),
        ({"framework": "trl", "adv_estimator": "grpo"}, {"dr_grpo/trl", "grpo/trl-batch", "gdpo/trl"}),
        ({"framework": "trl", "scale_rewards": "group"}, {"gdpo/trl"}),
        ({"framework": "nemo-rl", "adv_estimator": "grpo"}, {"grpo/nemo", "rloo/nemo"}),
        ({"framework": "openrlhf", "adv_estimator": "gae"}, set()),
        ({"framework": "verl", "adv_estimator": "reinforce_plus_plus"}, set()),
    ],
)
def test_what_a_header_leaves_open_is_named(header: dict[str, Any], alternatives: set[str]) -> None:
    assert set(configured(header).alternatives) == alternatives


@pytest.mark.parametrize("framework", ["trl", "ms-swift", "verl", "nemo-rl"])
def test_a_framework_alone_configures_nothing(framework: str) -> None:
    said = configured({"framework": framework, "reward_functions": ["a"], "group_size": 4})
    assert (said.convention, said.estimator, said.unknown_framework) == (None, None, None)
