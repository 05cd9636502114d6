"""Findings about the critic's values: leaks of masked ones into GAE, and a column that is shifted."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sqlalchemy import Engine

from tests.findings.ingested import canonical, found

Floats = NDArray[np.float64]
Row = dict[str, Any]


def gae(reward: Floats, value: Floats, gamma: float, lam: float) -> Floats:
    """A loop over positions, as in a textbook."""
    made, following, ahead = np.zeros(reward.size), 0.0, 0.0
    for t in range(reward.size - 1, -1, -1):
        following = reward[t] + gamma * ahead - value[t] + gamma * lam * following
        made[t], ahead = following, value[t]
    return made


def masked_gae(reward: Floats, value: Floats, mask: Floats, gamma: float, lam: float) -> Floats:
    live = mask > 0
    made = np.zeros(reward.size)
    made[live] = gae(reward[live], value[live], gamma, lam)
    return made


def rows_of(
    random: np.random.Generator,
    leak: bool,
    garbage: float,
    gamma: float = 0.99,
    lam: float = 0.95,
    **given: Any,
) -> list[Row]:
    """Two turns with a tool reply between, and padding behind; `garbage` is the size of its values."""
    mask = np.array([1, 1, 1, 0, 0, 1, 1, 1, 0, 0])
    rows = []
    for i in range(12):
        outcome = float(i % 2)
        reward = np.zeros(mask.size)
        reward[7] = outcome
        value = 0.5 + 0.1 * random.standard_normal(mask.size)
        value = np.where(mask > 0, value, garbage * random.standard_normal(mask.size))
        made = gae(reward, value, gamma, lam) if leak else masked_gae(reward, value, mask, gamma, lam)
        rows.append(
            {
                "step": 1, "group_id": f"g{i // 4}", "prompt": f"p{i // 4}", "response": f"answer {i}",
                "reward": outcome, "response_mask": mask.tolist(), "token_level_rewards": reward.tolist(),
                "values": value.tolist(), "advantages": (made * mask).tolist(),
                **{name: change(made, value, reward).tolist() for name, change in given.items()},
            }
        )  # fmt: skip
    return rows


def test_observation_values_in_gae(sqlite_engine: Engine, tmp_path: Path) -> None:
    said = found(sqlite_engine, tmp_path, canonical("01"))
    assert set(said) == {"masked_values_leak", "advantages_on_masked_tokens"}
    leak = said["masked_values_leak"]
    assert leak["severity"] == "critical" and "2 of 4 trainable tokens" in leak["title"]
    evidence = leak["evidence"]
    assert evidence["gamma"] == pytest.approx(1.0) and evidence["lam"] == pytest.approx(0.9)
    assert evidence["tokens_outside"] == 3 and evidence["examples"] == [9.0, -9.0, 3.0]
    assert (evidence["trainable_lowest"], evidence["trainable_highest"]) == (0.5, 0.8)
    assert (evidence["tokens_concerned"], evidence["trainable_tokens"]) == (2, 4)


def test_padding_values_in_gae(sqlite_engine: Engine, tmp_path: Path) -> None:
    said = found(sqlite_engine, tmp_path, canonical("02"))["masked_values_leak"]
    assert said["severity"] == "critical" and said["evidence"]["recorded"] == "leaks"
    assert said["evidence"]["lam"] == pytest.approx(0.95, rel=1e-4)
    assert (said["evidence"]["tokens_concerned"], said["evidence"]["tokens_outside"]) == (3, 2)


def test_reward_on_an_observation_is_no_leak_of_values(sqlite_engine: Engine, tmp_path: Path) -> None:
    said = found(sqlite_engine, tmp_path, canonical("03"))
    assert set(said) == {"reward_on_masked_token", "advantages_on_masked_tokens"}
    evidence = said["reward_on_masked_token"]["evidence"]
    assert [evidence[name] for name in ("gamma", "lam", "attenuation")] == pytest.approx([0.9, 0.8, 0.373248])


@pytest.mark.parametrize(
    ("leak", "garbage", "severity"),
    [
        (True, 5.0, "critical"),
        (True, 0.1, "critical"),  # in the usual range, but used
        (True, 0.0, None),  # 0 is no value
        (False, 0.1, None),
        (False, 5.0, None),  # far off, but the advantages left it out
    ],
)
@pytest.mark.parametrize(("gamma", "lam"), [(0.99, 0.95), (1.0, 0.9)])
def test_leaks_are_proven_by_the_advantages(
    sqlite_engine: Engine,
    tmp_path: Path,
    leak: bool,
    garbage: float,
    severity: str | None,
    gamma: float,
    lam: float,
) -> None:
    rows = rows_of(np.random.default_rng(1), leak, garbage, gamma, lam)
    said = found(sqlite_engine, tmp_path, rows).get("masked_values_leak")
    assert (said["severity"] if said else None) == severity
    if said:
        assert said["evidence"]["gamma"] == pytest.approx(gamma, rel=1e-4)
        assert said["evidence"]["lam"] == pytest.approx(lam, rel=1e-4)
        # Both stretches of every rollout leak: the last in front of the padding.
        assert said["evidence"]["borders_that_leak"] >= 22 and said["evidence"]["tokens_concerned"] >= 66


@pytest.mark.parametrize(("garbage", "severity"), [(50.0, "warning"), (0.3, None)])
def test_values_that_no_critic_means(
    sqlite_engine: Engine, tmp_path: Path, garbage: float, severity: str | None
) -> None:
    rows = rows_of(np.random.default_rng(2), False, garbage)
    for row in rows:
        del row["advantages"]
    said = found(sqlite_engine, tmp_path, rows)
    assert {code: each["severity"] for code, each in said.items()} == (
        {"masked_values_leak": severity} if severity else {}
    )


def test_whitened_advantages_beside_returns(sqlite_engine: Engine, tmp_path: Path) -> None:
    rows = rows_of(
        np.random.default_rng(3),
        True,
        5.0,
        returns=lambda made, value, reward: made + value,
        advantages=lambda made, value, reward: 3.0 * made - 0.2,
    )
    said = found(sqlite_engine, tmp_path, rows)["masked_values_leak"]
    assert said["severity"] == "critical" and said["evidence"]["borders_that_leak"] == 24


def test_the_longer_list_says_where_values_belong(sqlite_engine: Engine, tmp_path: Path) -> None:
    said = found(sqlite_engine, tmp_path, canonical("05"))
    assert set(said) == {"values_misaligned"}
    assert said["values_misaligned"]["severity"] == "critical"
    evidence = said["values_misaligned"]["evidence"]
    assert (evidence["shift"], evidence["by"], evidence["first_baseline"]) == (1, "longer", 0.5)
    right = canonical("05")
    right[0]["values"] = right[0]["values_full"][:4]
    assert found(sqlite_engine, tmp_path, [row | {"step": 2} for row in right]) == {}


def critic(
    random: np.random.Generator, shift: int, returns: bool, whitened: bool = False, dense: bool = False
) -> list[Row]:
    """Advantages of a right critic, whose values were exported `shift` tokens on."""
    rows = []
    for i in range(16):
        length = int(random.integers(20, 40))
        reward = np.zeros(length)
        reward[-1] = float(i % 2)
        if dense:
            reward[random.random(length) < 0.3] += 1.0
        to_go = np.cumsum(reward[::-1])[::-1]
        longer = np.concatenate([[to_go[0]], to_go, [0.0, 0.0]]) + 0.05 * random.standard_normal(length + 3)
        value = longer[1 : length + 1]
        made = gae(reward, value, 0.99, 0.95)
        row: Row = {
            "step": 1, "group_id": f"g{i // 4}", "prompt": f"p{i // 4}", "response": f"answer {i}",
            "reward": float(i % 2), "response_mask": [1] * length, "token_level_rewards": reward.tolist(),
            "values": longer[1 + shift : length + 1 + shift].tolist(),
        }  # fmt: skip
        if returns:
            row["returns"] = (made + value).tolist()
        if not dense:
            row["advantages"] = (2.0 * made + 0.3 if whitened else made).tolist()
        rows.append(row)
    return rows


@pytest.mark.parametrize("shift", [0, 1, -1])
@pytest.mark.parametrize(
    ("returns", "whitened", "dense", "by"),
    [
        (True, False, False, "returns"),
        (True, True, False, "returns"),
        (False, False, False, "recursion"),
        (False, False, True, "rewards"),
    ],
)
def test_shifted_values(
    sqlite_engine: Engine, tmp_path: Path, shift: int, returns: bool, whitened: bool, dense: bool, by: str
) -> None:
    rows = critic(np.random.default_rng(4), shift, returns, whitened, dense)
    said = found(sqlite_engine, tmp_path, rows).get("values_misaligned")
    if shift == 0:
        assert said is None
    else:
        assert said is not None
        assert (said["evidence"]["shift"], said["evidence"]["by"]) == (shift, by)
