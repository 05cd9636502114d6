"""The registry is complete: an estimator in no registry, or a docstring without its answers, fails here."""

import importlib
import json
import pkgutil
import re
from dataclasses import fields, is_dataclass

import pytest

import estimators
from estimators import CONVENTIONS, ESTIMATORS, Estimator, params_schema
from estimators.request import Request

ANSWERS = (
    "masked tokens in the recursion",
    "value after the last token",
    "groups of one",
    "who enters a group",
    "std",
    "ε and where",
    "whitening over what",
    "what `returns` means",
)
WITH_ESTIMATOR = {
    info.name: module
    for info in pkgutil.iter_modules(estimators.__path__)
    if isinstance(
        getattr(module := importlib.import_module(f"estimators.{info.name}"), "ESTIMATOR", None), Estimator
    )
}


def test_every_file_with_an_estimator_is_registered_under_its_name() -> None:
    assert {name: module.ESTIMATOR for name, module in WITH_ESTIMATOR.items()} == ESTIMATORS
    assert all(name == estimator.name for name, estimator in ESTIMATORS.items())


@pytest.mark.parametrize("name", ESTIMATORS)
def test_docstring_answers_what_decides_every_number(name: str) -> None:
    text = WITH_ESTIMATOR[name].__doc__ or ""
    conventions = text.partition("**Conventions**")[2]
    assert re.findall(r"^- (.*?):", conventions, re.M) == list(ANSWERS)
    assert "Paper: " in text and "Agrees with " in text


@pytest.mark.parametrize("name", ESTIMATORS)
def test_parameters_are_described_and_serialisable(name: str) -> None:
    schema = json.loads(json.dumps(params_schema(ESTIMATORS[name])))
    assert schema["additionalProperties"] is False
    for parameter, described in schema["properties"].items():
        assert described["description"], parameter
        assert "default" in described
    assert is_dataclass(ESTIMATORS[name].params)
    assert list(schema["properties"]) == [each.name for each in fields(ESTIMATORS[name].params)]


@pytest.mark.parametrize("name", CONVENTIONS)
def test_convention_is_data_for_a_registered_estimator(name: str) -> None:
    convention = CONVENTIONS[name]
    assert convention.name == name
    assert type(convention.params) is ESTIMATORS[convention.estimator].params
    assert (convention.framework is None) == (convention.version is None)
    request = Request.from_dict({"convention": name})
    assert request.params == convention.params and request.whitening == convention.whitening


#: `estimator/framework`: the names that callers may rely on.
NAMED = {
    "gae": "verl verl-0.4 openrlhf nemo areal skyrl roll slime trl-ppo torchrl",
    "reinforce_plus_plus": "verl verl-0.8 openrlhf skyrl",
    "remax": "verl",
    "optimal_token_baseline": "verl",
    "tir_optimal_token_baseline": "verl",
    "grpo": "verl trl-group trl-batch",
    "dr_grpo": "verl trl",
}


def test_conventions_are_there_under_their_names() -> None:
    named = {f"{estimator}/{each}" for estimator, frameworks in NAMED.items() for each in frameworks.split()}
    assert named | {"td_error", "reward_to_go"} <= set(CONVENTIONS)
