"""KL in reward and loss at once is said where both are configured to act, and only there."""

from typing import Any

import pytest

from tests.findings.memory import codes_of
from tests.findings.test_numbers import rows_of

CODE = "kl_in_reward_and_loss"
BOTH: dict[str, Any] = {
    "use_kl_in_reward": True, "kl_coef": 0.01, "use_kl_loss": True, "kl_loss_coef": 0.001,
}  # fmt: skip
VERL: dict[str, Any] = {
    "framework": "verl",
    "algorithm": {"use_kl_in_reward": True, "kl_ctrl": {"type": "fixed", "kl_coef": 0.02}},
    "actor_rollout_ref": {"actor": {"use_kl_loss": True, "kl_loss_coef": 0.001}},
}


def said(header: dict[str, Any], **tokens: Any) -> dict[str, Any] | None:
    rows = rows_of([[1.0, 0.0, 1.0]] * 3)
    for row in rows:
        size = len(row["response_ids"]) if "response_ids" in row else 3
        row |= {name: [value] * size for name, value in tokens.items()}
    return codes_of(rows, header).get(CODE)


@pytest.mark.parametrize(
    "header",
    [
        BOTH,
        VERL,
        {"framework": "skyrl", **BOTH},
        {"framework": "roll", "add_token_level_kl": True, "init_kl_coef": 0.2, "use_kl_loss": True},
        {"algorithm.use_kl_in_reward": "true", "actor.use_kl_loss": "True", "actor.kl_loss_coef": "1e-3"},
    ],
)
def test_both_switches_on_is_a_warning(header: dict[str, Any]) -> None:
    found = said(header)
    assert found is not None and found["severity"] == "warning"
    assert found["evidence"]["reward"] and found["evidence"]["loss"]


def test_the_settings_are_said_as_they_stand() -> None:
    found = said(VERL)
    assert found is not None
    assert found["evidence"] == {
        "reward": {"use_kl_in_reward": True, "kl_coef": 0.02},
        "loss": {"use_kl_loss": True, "kl_loss_coef": 0.001},
    }
    assert "use_kl_in_reward = true, kl_coef = 0.02" in found["title"]


def test_a_coefficient_without_a_switch_is_a_note() -> None:
    found = said({"use_kl_in_reward": True, "kl_coef": 0.01, "kl_loss_coef": 0.001})
    assert found is not None and found["severity"] == "info"


@pytest.mark.parametrize(
    "header",
    [
        {},
        BOTH | {"use_kl_loss": False},
        BOTH | {"use_kl_in_reward": False},
        BOTH | {"kl_coef": 0.0},
        BOTH | {"kl_loss_coef": 0},
        *({"framework": name, **BOTH} for name in ("openrlhf", "nemo_rl", "slime", "miles", "easyr1", "TRL")),
        {"framework": "verl", "use_kl_in_reward": True, "kl_coef": 0.01, "kl_loss_coef": 0.001},
        {"kl_coef": 0.01, "use_kl_loss": True, "kl_loss_coef": 0.001},
        {"framework": "trl", "beta": 0.04, "kl_coef": 0.05},
    ],
)
def test_one_of_them_alone_is_fine(header: dict[str, Any]) -> None:
    assert said(header) is None


def test_a_penalty_that_the_rewards_do_not_have_is_not_applied() -> None:
    assert said(BOTH, token_level_scores=0.5, token_level_rewards=0.5) is None
    assert said(BOTH, token_level_scores=0.5, token_level_rewards=0.4) is not None
