"""Groups that differ in more components than others and get the same advantages are said, with what helps."""

from typing import Any

import numpy as np
import pytest

from tests.findings.memory import codes_of

CODE = "component_scale_lost"
GRPO = {"framework": "verl", "adv_estimator": "grpo"}


Groups = list[list[tuple[float, ...]]]


def rows(groups: Groups, recorded: str | None = None) -> list[dict[str, Any]]:
    """Components of each rollout; the reward is their sum."""
    made = list[dict[str, Any]]()
    for number, group in enumerate(groups):
        totals = np.array([sum(each) for each in group])
        away = totals - totals.mean()
        std = totals.std(ddof=1) if totals.size > 1 else 1.0
        made_of = {"z": away / (std + 1e-6), "centred": away}
        for place, each in enumerate(group):
            row: dict[str, Any] = {"group_id": f"g{number}", "reward": float(totals[place])}
            row["reward_components"] = {f"part {k}": value for k, value in enumerate(each)}
            if recorded:
                row["advantage"] = float(made_of[recorded][place])
            made.append(row | {"response": f"answer {len(made)}"})
    return made


ONE: list[tuple[float, ...]] = [(0.0, 0.0), (0.0, 1.0)]
BOTH: list[tuple[float, ...]] = [(0.0, 0.0), (1.0, 1.0)]


@pytest.mark.parametrize("recorded", [None, "z"])
def test_sums_of_one_and_of_two_that_get_the_same(recorded: str | None) -> None:
    said = codes_of(rows([ONE, BOTH] * 3, recorded), GRPO)[CODE]
    assert said["severity"] == "warning" and said["groups_total"] == 6
    one, both = said["evidence"]["example"].values()
    assert one["components"] == ["part 1"] and both["components"] == ["part 0", "part 1"]
    assert one["z_score"] == both["z_score"] == pytest.approx(0.5**0.5)
    assert (one["gdpo"], both["gdpo"]) == pytest.approx((0.5**0.5, 2**0.5))
    assert (one["dr_grpo"], both["dr_grpo"]) == pytest.approx((0.5, 1.0))
    assert "GDPO" in said["remedy"] and "0.707 and 1.41" in said["remedy"]


def test_a_few_such_groups_are_a_note() -> None:
    others: Groups = [[(float(i % 2), float(i % 3 == 0)) for i in range(k, k + 5)] for k in range(6)]
    said = codes_of(rows([ONE, BOTH, *others]), GRPO)[CODE]
    assert said["severity"] == "info" and said["groups_total"] == 2


@pytest.mark.parametrize(
    ("groups", "recorded", "header"),
    [
        ([ONE, BOTH] * 3, "centred", GRPO),  # not divided, whatever the header says
        ([ONE, BOTH] * 3, None, {}),  # nobody says how
        ([ONE, BOTH] * 3, None, {"framework": "verl", "adv_estimator": "gae"}),
        ([ONE, BOTH] * 3, None, GRPO | {"norm_adv_by_std_in_grpo": False}),
        ([ONE, BOTH] * 3, None, {"framework": "trl", "scale_rewards": "none"}),
        ([ONE, BOTH] * 3, None, {"framework": "trl", "multi_objective_aggregation": "normalize_then_sum"}),
        ([ONE] * 6, None, GRPO),
        ([ONE, [(0.0, 0.0), (1.0, 0.0)]] * 3, None, GRPO),  # another component, as much of it
        ([ONE, [(0.0, 0.0), (0.0, 3.0)]] * 3, None, GRPO),  # the same component, more of it
        ([[(0.0, 1.0)], [(1.0, 1.0)]] * 3, None, GRPO),
    ],
)
def test_nothing_is_said_where_nothing_is_lost(groups: Any, recorded: Any, header: dict[str, Any]) -> None:
    assert CODE not in codes_of(rows(groups, recorded), header)
