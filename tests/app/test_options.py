"""Every option of a framework that may be about advantages has a place in its table."""

import json
from pathlib import Path
from typing import Any

import pytest

from app.configured import CALLED, FRAMEWORKS, configured
from app.configured.configured import about
from app.configured.effects import Framework
from app.configured.header import known_as
from estimators import CONVENTIONS, Request

OPTIONS = Path(__file__).parents[1] / "data" / "options"


def options() -> list[Any]:
    """(framework's name, where its option is from, option)."""
    return [
        pytest.param(path.stem, place, names, id=place)
        for path in sorted(OPTIONS.glob("*.json"))
        for place, names in json.loads(path.read_text()).items()
    ]


@pytest.mark.parametrize(("framework", "place", "names"), options())
def test_options_about_advantages_are_mapped_or_without_effect(
    framework: str, place: str, names: list[str]
) -> None:
    keys = CALLED[framework].keys
    assert len(names) > 20
    assert [name for name in names if about(name) and known_as(name, keys) is None] == []


def test_every_framework_is_walked() -> None:
    walked = {CALLED[path.stem].source for path in OPTIONS.glob("*.json")}
    assert walked == {each.source for each in FRAMEWORKS} - {CALLED["unsloth"].source}


@pytest.mark.parametrize("name", ["use_kl_in_reward", "reward_scaling", "norm_adv_by_std_in_grpo",
                                  "loss_mask", "filter_groups", "truncation", "gae_lambda",
                                  "whiten_rewards"])  # fmt: skip
def test_names_that_are_about_advantages(name: str) -> None:
    assert about(name) and about(f"algorithm.{name}")


@pytest.mark.parametrize("name", ["max_grad_norm", "learning_rate", "layer_norm_eps", "attention_mask_type",
                                  "rms_norm", "seed"])  # fmt: skip
def test_names_that_are_not(name: str) -> None:
    assert not about(name)


@pytest.mark.parametrize("framework", FRAMEWORKS, ids=lambda each: each.called[0])
def test_tables_name_what_there_is(framework: Framework) -> None:
    for convention in framework.estimators.values():
        assert CONVENTIONS[convention].framework == framework.name
    assert framework.by_default is None or framework.by_default in CONVENTIONS
    own = [each for each in CONVENTIONS.values() if each.framework == framework.name]
    taken = {name for each in own for name in (*each.aliases, *each.params.__dataclass_fields__)}
    for key, effect in framework.keys.items():
        assert effect.why
        assert effect.kind != "sets" or (effect.name or key) in taken, key


@pytest.mark.parametrize("framework", FRAMEWORKS, ids=lambda each: each.called[0])
def test_each_estimator_gives_params_that_a_request_takes(framework: Framework) -> None:
    for name, first in framework.estimators.items():
        said = configured({"framework": framework.called[0], "adv_estimator": name, "reward_weights": [1.0]})
        convention = said.convention or first
        assert said.convention is not None or said.not_understood
        assert said.not_understood or said.unknown_estimator is None
        request = Request.from_dict({"convention": convention, "params": said.params})
        assert request.params.reward_weights == (1.0,) if hasattr(request.params, "reward_weights") else True
