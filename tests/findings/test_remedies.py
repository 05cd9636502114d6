"""A remedy is tried on the batch: where it helps, its effect is said in numbers; where it does not, it is not
given."""

from typing import Any

import numpy as np
import pytest

from tests.findings.memory import codes_of
from tests.findings.test_numbers import rows_of
from tests.findings.test_rewards import with_components

Tried = dict[str, dict[str, Any]]


def remedy(rows: Any, code: str, **given: Any) -> tuple[str, Tried]:
    """What the finding advises, and what it tried."""
    found = codes_of(rows, **given)[code]
    return found["remedy"], found["evidence"]["tried"]


def z(values: Any) -> Any:
    values = np.asarray(values, dtype=float)
    std = values.std(ddof=1)
    return (values - values.mean()) / std if std > 1e-12 else values * 0.0


def share(groups: list[Any], inside: list[int]) -> float:
    """Σ|A| of some groups over that of all."""
    size = [np.abs(group).sum() for group in groups]
    return float(sum(size[i] for i in inside) / sum(size))


# --- reward_component_collapse ---------------------------------------------------------------------------


def of_parts(groups: list[list[dict[str, float]]], weights: dict[str, float]) -> Any:
    rewards = [[sum(weights[name] * part[name] for name in weights) for part in group] for group in groups]
    return rows_of(rewards, reward_components=[part for group in groups for part in group])


def test_gdpo_is_not_given_where_two_components_of_equal_weight_cancel() -> None:
    groups = [[(1.0, 0.0), (0.0, 1.0)] * 2] * 4
    said, tried = remedy(
        with_components(groups, (1.0, 1.0), ("correct", "format")), "reward_component_collapse"
    )
    assert "GDPO" not in said and "Count correct twice" in said and "±0.866 in 4 of 4 such groups" in said
    assert tried["gdpo"] == {
        "helps": False, "groups": 0, "of": 4, "largest_advantage": 0.0, "groups_against_the_answer": 0,
    }  # fmt: skip
    assert tried["double_weight"]["largest_advantage"] == pytest.approx(np.abs(z([2.0, 1.0, 2.0, 1.0])).max())


def test_gdpo_is_given_where_it_tells_them_apart() -> None:
    """Weights 1 and 2 on spreads of 2 and 1: what cancels in the sum does not in z-scores."""
    apart = [{"correct": 2.0 * (i % 2), "format": 1.0 - i % 2} for i in range(4)]
    mixed = [{"correct": 2.0 * (i % 2), "format": float(i > 1)} for i in range(4)]
    said, tried = remedy(
        of_parts([apart] * 3 + [mixed], {"correct": 1.0, "format": 2.0}), "reward_component_collapse"
    )
    expected = z([part["correct"] for part in apart]) + 2 * z([part["format"] for part in apart])
    assert tried["gdpo"]["groups_against_the_answer"] == 3 and not tried["gdpo"]["helps"], "format outweighs"
    assert tried["gdpo"]["largest_advantage"] == pytest.approx(np.abs(expected).max())
    swapped = [
        [{"correct": part["format"], "format": part["correct"]} for part in group]
        for group in [apart] * 3 + [mixed]
    ]
    said, tried = remedy(of_parts(swapped, {"correct": 2.0, "format": 1.0}), "reward_component_collapse")
    assert "(GDPO): it would give up to ±0.866 in 3 of 3 such groups" in said
    assert tried["gdpo"]["helps"] and tried["gdpo"]["groups_against_the_answer"] == 0


def test_gdpo_is_not_given_where_it_turns_right_answers_down() -> None:
    groups = [
        [{"correct": float(i % 2), "format": 0.5 * (1 - i % 2), "style": 0.5 * (1 - i % 2)} for i in range(4)]
    ] * 4
    said, tried = remedy(
        of_parts(groups, {"correct": 1.0, "format": 1.0, "style": 1.0}), "reward_component_collapse"
    )
    assert "GDPO" not in said and tried["gdpo"]["groups_against_the_answer"] == 4


def test_nothing_is_given_where_nothing_helps() -> None:
    """Only two kinds of rollouts differ, and neither changes the component that would count twice."""
    groups = [[{"correct": 1.0, "a": float(i % 2), "b": 1.0 - i % 2} for i in range(4)]] * 3
    groups += [[{"correct": float(i % 2), "a": 0.0, "b": 0.0} for i in range(4)]]
    said, tried = remedy(of_parts(groups, {"correct": 1.0, "a": 1.0, "b": 1.0}), "reward_component_collapse")
    assert not any(each["helps"] for each in tried.values())
    assert said == "Decide which outcome counts more, and give the components rewards that say so."


# --- reward_component_dominates --------------------------------------------------------------------------


def dominated(weight: float) -> Any:
    random = np.random.default_rng(1)
    groups = [[(float(i % 2), 3 * float(random.normal())) for i in range(8)] for _ in range(8)]
    return groups, with_components(groups, (1.0, weight), ("accuracy", "length"))


def test_one_scale_is_given_with_the_share_it_makes() -> None:
    groups, rows = dominated(1.0)
    said, tried = remedy(rows, "reward_component_dominates")
    answer = [z([a for a, _ in group]) for group in groups]
    total = [mine + z([b for _, b in group]) for mine, group in zip(answer, groups, strict=True)]
    expected = sum(a @ b for a, b in zip(answer, total, strict=True)) / sum(each @ each for each in total)
    assert tried["gdpo"]["share"] == pytest.approx(expected) and tried["gdpo"]["helps"]
    assert "(GDPO): accuracy would make 50 % of the variance" in said
    assert (
        tried["smaller_weight"]["share"] == pytest.approx(0.5) and "Give length 0.205 of its weight" in said
    )
    assert not tried["gate"]["helps"] and "right answers only" not in said


def test_gdpo_is_not_given_where_the_weights_dominate() -> None:
    """Its weights are those of the sum: 10 × a z-score still drowns 1 × a z-score."""
    _, rows = dominated(10.0)
    said, tried = remedy(rows, "reward_component_dominates")
    assert "GDPO" not in said and tried["gdpo"]["share"] < 0.05
    assert "of its weight: accuracy would make 50 % of the variance" in said


# --- shaping_noise, near_zero_variance_groups ------------------------------------------------------------

NOISE = [(0.0, 0.01), (0.0, 0.03), (0.0, 0.0), (0.0, 0.02)]


def noisy() -> tuple[list[list[float]], Any]:
    groups = [[(float(i % 2), 0.0) for i in range(4)] for _ in range(4)] + [NOISE] * 3
    rows = with_components(groups, (1.0, 1.0), ("accuracy", "format"))
    return [[a + b for a, b in group] for group in groups], rows


def test_what_quietens_shaping_noise_is_given_and_gdpo_is_not() -> None:
    totals, rows = noisy()
    said, tried = remedy(rows, "shaping_noise")
    now = share([z(group) for group in totals], [4, 5, 6])
    centred = share([np.asarray(group) - np.mean(group) for group in totals], [4, 5, 6])
    assert tried["gdpo"]["share"] == pytest.approx(now) and "GDPO" not in said
    assert tried["no_std"] == {"helps": True, "share": pytest.approx(centred)}
    assert "(Dr. GRPO): these groups would carry 1.5 % of all |advantage| (now 40 %)" in said
    assert tried["filter"] == {"helps": True, "share": 0.0, "groups_left": 4}
    assert "right answers only" in said and tried["gate"]["share"] == 0.0


def test_the_std_is_not_blamed_where_it_changes_little() -> None:
    """Without the std such groups carry as much where all others are as tight."""
    totals, rows = noisy()
    said, tried = remedy(rows, "near_zero_variance_groups")
    assert tried["std_floor"]["share"] == pytest.approx(0.0697674, rel=1e-5)
    assert "Use a std of at least 0.115" in said and "drop 3 of these 3 groups and leave 4" in said
    plain = rows_of(totals)
    said, tried = remedy(plain, "near_zero_variance_groups")
    assert "Filter" not in said and set(tried) == {"no_std", "std_floor"}, "no components, no filter on one"


def test_no_filter_where_the_answer_differs_in_these_groups() -> None:
    groups = [[(10.0 * (i % 2), 0.0) for i in range(4)] for _ in range(4)]
    groups += [[(0.01 * (i % 2), 0.0) for i in range(4)]] * 2 + [[(0.0, 5.0 * (i % 2)) for i in range(4)]] * 2
    rows = with_components(groups, (1.0, 1.0), ("accuracy", "format"))
    said, tried = remedy(rows, "near_zero_variance_groups")
    assert tried["filter"] == {"helps": False, "drops": 0, "groups_left": 6} and "Filter" not in said
