"""Requests read JSON, say what is wrong with it, and write themselves so that they read the same again."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from estimators import CONVENTIONS, ESTIMATORS, Request
from estimators.gae import GaeParams
from estimators.whitening import W_TRL, W_VERL, Whitening
from tests.estimators.strategies import law

BODIES = [{"convention": name} for name in CONVENTIONS] + [{"estimator": name} for name in ESTIMATORS]


@law
@given(
    st.sampled_from(BODIES),
    st.sampled_from(["none", "group", "batch", "data_source", "rank", "running"]),
    st.sampled_from(["float64", "float32"]),
    st.sampled_from(["group_id", "prompt", "stride:8"]),
)
def test_a_request_reads_itself(body: dict[str, object], scope: str, precision: str, grouping: str) -> None:
    request = Request.from_dict(
        {**body, "whitening": {"scope": scope}, "precision": precision, "grouping": grouping}
    )
    written = json.loads(json.dumps(request.to_dict()))
    assert Request.from_dict(written) == request
    assert written["whitening"]["scope"] == scope


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ({}, "needs an estimator or a convention"),
        ({"estimator": "gea"}, "There is no estimator 'gea'; there are gae, grpo"),
        ({"convention": "grpo"}, "There is no convention 'grpo'"),
        ({"convention": "grpo/verl", "estimator": "gae"}, "uses the estimator grpo, not 'gae'"),
        ({"estimator": "gae", "params": {"lamda": 1}}, "params of gae has no 'lamda'; it has truncation"),
        ({"estimator": "gae", "params": {"lam": 1.5}}, "lam of params of gae is 1.5; give at most 1"),
        ({"estimator": "gae", "params": {"lam": "1"}}, "is '1'; give a number"),
        ({"estimator": "gae", "params": {"lam": True}}, "is True; give a number"),
        ({"estimator": "gae", "params": {"lam": float("nan")}}, "give a finite number"),
        ({"estimator": "gae", "params": [1]}, "params is [1]; give an object"),
        ({"estimator": "gae", "params": {"reward_clip_range": [1]}}, "give a list of numbers or null"),
        ({"estimator": "grpo", "params": {"ddof": 0.5}}, "give a whole number"),
        ({"estimator": "grpo", "params": {"norm_adv_by_std_in_grpo": 1}}, "give true or false"),
        (
            {"estimator": "grpo", "params": {"reward_weights": {"a": "b"}}},
            "or a mapping from names to numbers",
        ),
        ({"estimator": "grpo", "whitening": {"scope": "galaxy"}}, "give one of 'none', 'group', 'batch'"),
        ({"estimator": "grpo", "whitening": {"eps": -1}}, "give at least 0"),
        ({"estimator": "grpo", "precision": "float16"}, "give float64 or float32"),
        ({"estimator": "grpo", "grouping": "stride:0"}, "stride:N with N of at least 1"),
        ({"estimator": "grpo", "scope": "batch"}, "A request has no 'scope'"),
        (
            {"convention": "grpo/verl", "params": {"adv_estimator": "gae"}},
            "computes grpo; use gae/verl or gae/verl-0.4",
        ),
        ({"convention": "dr_grpo/prime-rl", "params": {"algo": {"type": "max_rl"}}}, "use maxrl/prime-rl"),
        ({"convention": "grpo/verl", "params": {"kl_ctrl": {"type": "adaptive"}}}, "Give type fixed"),
        ({"convention": "grpo/trl-group", "params": {"epsilon": 0.2}}, "is the clip range of the loss"),
        (
            {"convention": "gae/openrlhf", "params": {"no_std_norm": 3}},
            "no_std_norm is 3; give true or false",
        ),
    ],
)
def test_a_mistake_is_named(body: dict[str, object], sentence: str) -> None:
    with pytest.raises(ValueError) as caught:
        Request.from_dict(body)
    assert sentence in str(caught.value)


def test_a_framework_configuration_can_be_pasted() -> None:
    config = {"gamma": 0.99, "lambd": 0.95, "no_std_norm": True, "init_coef": 0.01, "kl_estimator": "k3"}
    request = Request.from_dict({"convention": "gae/openrlhf", "params": config})
    assert isinstance(request.params, GaeParams)
    assert (request.params.lam, request.params.kl_coef, request.params.kl_penalty) == (0.95, 0.01, "k3")
    assert request.whitening.scale is False and request.whitening.scope == "batch"


@pytest.mark.parametrize(
    ("convention", "config", "changed"),
    [
        # Of the loss: the reward stays as it is.
        ("grpo/trl-group", {"beta": 0.04, "num_generations": 4, "loss_type": "dapo"}, {"group_size": 4}),
        ("rloo/trl", {"beta": 0.05}, {"kl_coef": 0.05}),
        ("grpo/verl", {"adv_estimator": "grpo", "gamma": 0.9, "lam": 0.95, "num_repeat": 8}, {}),
        ("gae/verl", {"norm_adv_by_std_in_grpo": False, "gamma": 0.9}, {"gamma": 0.9}),
        ("gae/verl", {"gamma": None, "lam": None}, {}),
        (
            "grpo/areal",
            {"reward_norm": {"mean_level": "batch", "group_size": 4, "std_level": None}, "adv_norm": None},
            {"mean_level": "batch", "group_size": 4, "scale_rewards": "none"},
        ),
        # As a request spells it itself.
        ("grpo/areal", {"mean_level": "none", "scale_rewards": "none"}, {"mean_level": "none"}),
        ("grpo/torchrl", {"grpo_size": 4}, {"trajectory_return": "none", "epsilon": 1e-6}),
        ("grpo/torchrl", {"trajectory_return": "sum", "grpo_size": 4}, {"trajectory_return": "sum"}),
        ("reward_to_go", {"adv_estimator": "reinforce"}, {"masked_tokens": "zero"}),
    ],
)
def test_configuration_keys_set_what_they_set_in_their_framework(
    convention: str, config: dict[str, object], changed: dict[str, object]
) -> None:
    request = Request.from_dict({"convention": convention, "params": config}).to_dict()
    start = Request.from_dict({"convention": convention}).to_dict()["params"]
    assert {name: request["params"][name] for name in changed} == changed
    assert "kl_coef" in changed or request["params"]["kl_coef"] == start["kl_coef"]
    if not changed:
        assert request["params"] == start
    assert Request.from_dict(json.loads(json.dumps(request))).to_dict() == request


def test_whitening_that_a_framework_switches_on_is_its_own() -> None:
    def whitening(convention: str, **params: object) -> Whitening:
        return Request.from_dict({"convention": convention, "params": params}).whitening

    assert whitening("gae/skyrl", advantage_batch_normalize=False) == W_TRL
    assert whitening("gae/skyrl", advantage_batch_normalize=True).mean_scope == "cells"
    assert whitening("grpo/skyrl", advantage_batch_normalize=False).scope == "none"
    assert whitening("grpo/slime", normalize_advantages=True).scope == "batch"
    rolls = replace(W_VERL, zero_masked=True, too_few="skip")
    assert whitening("reward_to_go", whiten_advantages=True) == rolls
    assert whitening("grpo/roll", whiten_advantages=True) == rolls


def test_overrides_keep_the_rest_of_the_convention() -> None:
    request = Request.from_dict(
        {"convention": "gae/verl", "whitening": {"scope": "group"}, "params": {"lam": 0}}
    )
    assert request.whitening.count_eps == 1e-8 and request.whitening.scope == "group"
    assert request.params.score_location == "last_response" and request.params.lam == 0.0


@pytest.mark.parametrize("name", CONVENTIONS)
def test_a_convention_spelt_out_is_the_same_request(name: str) -> None:
    """In whatever order a database gives its keys back."""
    request = Request.from_dict({"convention": name})
    spelt = json.loads(json.dumps(request.to_dict(), sort_keys=True))
    assert Request.from_dict(spelt) == request


def test_a_clip_of_the_framework_is_one_after_the_comparison() -> None:
    body = {"convention": "grpo/openrlhf", "params": {"reward_clip_range": [-1, 2]}}
    request = Request.from_dict(body)
    assert (request.params.advantage_clip_low, request.params.advantage_clip_high) == (-1, 2)
    assert Request.from_dict(json.loads(json.dumps(request.to_dict(), sort_keys=True))) == request


#: verl's `algorithm`, as it is by default.
ALGORITHM = {
    "_target_": "verl.trainer.config.AlgoConfig",
    "gamma": 1.0,
    "lam": 1.0,
    "norm_adv_by_std_in_grpo": True,
    "use_kl_in_reward": False,
    "kl_penalty": "kl",
    "kl_ctrl": {"type": "fixed", "kl_coef": 0.001, "horizon": 10000, "target_kl": 0.1},
    "use_pf_ppo": False,
    "pf_ppo": {"reweight_method": "pow", "weight_pow": 2.0},
    "filter_groups": None,
    "gdpo_reward_keys": None,
    "gdpo_reward_weights": None,
    "rollout_correction": None,
}


@pytest.mark.parametrize("name", ["gae", "grpo", "rloo", "gdpo", "remax", "reinforce_plus_plus"])
def test_the_whole_algorithm_of_verl_can_be_pasted(name: str) -> None:
    given = {**ALGORITHM, "adv_estimator": name}
    pasted = Request.from_dict({"convention": f"{name}/verl", "params": given})
    plain = Request.from_dict({"convention": f"{name}/verl", "params": {"kl_coef": 0.001}})
    assert pasted.params.beta == 0 and replace(pasted.params, use_kl_in_reward=True) == plain.params
    penalised = Request.from_dict(
        {"convention": f"{name}/verl", "params": {**given, "use_kl_in_reward": True}}
    )
    assert penalised.params.beta == 0.001


@pytest.mark.parametrize("name", ["dr_grpo/prime-rl", "maxrl/prime-rl", "rae/prime-rl", "dr_grpo/tinker"])
def test_the_size_of_groups_that_have_ids_cuts_nothing(name: str) -> None:
    request = Request.from_dict({"convention": name, "params": {"group_size": 8}})
    assert request == Request.from_dict({"convention": name})
