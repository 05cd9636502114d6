"""Advantages that lost their meaning in few bits: 16-bit means, one-pass variances.

* Recorded in 16 bits: all rewards of a group are numbers of bfloat16 (or float16), the recorded advantages
  equal the group formula with every step rounded to that type (to two units in the last place), and in
  float64 the same formula differs by more than 5 % of the group's largest advantage. critical where a
  rollout thereby gets 0 or the other sign, warning otherwise.
* One-pass variance: the recorded advantages are (reward − mean) divided by a spread that is more than 5 %
  off the group's std (ddof 0 or 1), and E[x²] − E[x]² in float32 gives that spread; or they are NaN where
  that variance is negative. warning; critical with NaN.
* Rewards on the grid: nothing recorded shows it, but all of the batch's rewards are numbers of the 16-bit
  type (some of which need more than five decimal digits, so that they are no counted or graded scores), and
  the group's mean, rounded to the type, is off by more than a quarter of the group's std. warning.
* Values on the grid: all critic values (at least 16 different ones) are numbers of bfloat16, and a step of
  it is larger than half of the usual change from token to token, so that δ is mostly rounding. warning.

5 % is ten times what rounding the finished advantages to bfloat16 (0.4 %) can do; a quarter of a std moves
a z-score by 0.25, as much as one more wrong answer in a group of sixteen.

Seen as: advantages of a group that do not sum to 0, rewards that all look alike in the log, groups whose
std is 0 or NaN although the rewards differ (OpenRLHF#1334, slime#245, NeMo-RL#4161, atropos#481).

Remedy: turn rewards and values into float32 before any mean, use a two-pass variance, keep 16 bits for the
network.

Evidence: `kind`, `dtype`, `formula`, `groups`, and of the worst group `rewards`, `recorded`, `float64`,
`low_precision`, `low_precision_mean`, `sum_recorded`; for values `step` and `usual_change`.
"""

from typing import Any

import numpy as np
import torch

from app.findings import recorded, rounding
from app.findings.finding import Finding, Severity, report
from app.findings.part import Part
from app.findings.view import Floats, Ints, View, group_statistics
from app.formatting import number, plural, signed

APART, MEAN_OFF = 0.05, 0.25
LAST_PLACES = 2
DIGITS = 5
SHOWN, MOST_GROUPS = 16, 2000
DIFFERENT, HALF = 16, 0.5
BF16_BITS = 8


def begin(view: View) -> dict[str, Any]:
    return {"tokens": 0, "on_grid": True, "changes": [], "steps": [], "seen": set()}


def observe(part: Part, state: dict[str, Any]) -> None:
    values = part.floats("values")
    if values is None or not state["on_grid"]:
        return
    here = part.mask & np.isfinite(values)
    kept = values[here]
    if not rounding.on_grid(kept, torch.bfloat16).all():
        state["on_grid"] = False
        return
    state["tokens"] += kept.size
    if len(state["seen"]) < DIFFERENT:
        state["seen"].update(np.unique(kept)[:DIFFERENT].tolist())
    beside = here[:-1] & here[1:] & (part.owner[:-1] == part.owner[1:])
    if beside.any():
        state["changes"].append(float(np.median(np.abs(np.diff(values)[beside]))))
        state["steps"].append(float(np.median(rounding.step(values[:-1][beside], BF16_BITS))))


def check(view: View) -> list[dict[str, Any]] | None:
    if view.uses_groups:
        members = _members(view)
        said = _sixteen_bits(view, members) or _one_pass(view, members) or _grid(view)
    else:
        said = None
    found = [each for each in (said, _values(view)) if each is not None]
    return found or None


def _members(view: View) -> list[Ints]:
    """Places of the scored rollouts of each group that has two or more."""
    rows = view.scored & (view.valid != 0)
    order = np.argsort(view.group[rows], kind="stable")
    places = np.flatnonzero(rows)[order]
    cuts = np.flatnonzero(np.diff(view.group[places])) + 1
    return [group for group in np.split(places, cuts) if group.size >= 2][:MOST_GROUPS]


def _sixteen_bits(view: View, members: list[Ints]) -> dict[str, Any] | None:
    given = recorded.one_per_rollout(view)
    found: list[tuple[Ints, rounding.Emulated]] = []
    for places in members:
        if given[places].all() and (how := _matching(view.reward[places], view.advantage[places])):
            found.append((places, how))
    if not found:
        return None
    worst, how = max(found, key=lambda pair: float(np.abs(pair[1].low - pair[1].exact).max()))
    turned = sum(int((np.sign(how.low) != np.sign(how.exact)).sum()) for _, how in found)
    rows = np.concatenate([places for places, _ in found])
    severity: Severity = "critical" if turned else "warning"
    total = float(view.advantage[worst].sum())
    return report(
        view,
        severity,
        f"Recorded advantages of {plural(len(found), 'group')} were computed in {how.dtype}: those of group "
        f"{view.group_ids[view.group[worst[0]]]!r} sum to {signed(total, 7)} instead of 0.",
        explanation=f"In {how.dtype} the group mean is rounded to {number(how.mean, 9)}, so the differences "
        f"to it are mostly rounding: {plural(turned, 'rollout')} got 0 or the other sign that way.",
        remedy="Turn rewards into float32 before the group statistics; keep 16 bits for the network.",
        evidence={
            "kind": "sixteen bits",
            "dtype": how.dtype,
            "formula": how.how,
            "groups": len(found),
            "sum_recorded": total,
            "rollouts_of_other_sign": turned,
            "low_precision_mean": how.mean,
            **_numbers(view, worst),
            "float64": how.exact[:SHOWN],
            "low_precision": how.low[:SHOWN],
        },
        groups=[int(view.group[places[0]]) for places, _ in found],
        rollouts=rows,
    )


def _matching(rewards: Floats, advantages: Floats) -> rounding.Emulated | None:
    """The 16-bit recipe that gives the recorded numbers, where float64 gives others."""
    size = np.abs(advantages).max()
    if size == 0 or np.ptp(rewards) == 0:
        return None
    for how in rounding.in_few_bits(rewards):
        bits = next(bits for name, _, bits in rounding.FORMATS if name == how.dtype)
        allowed = LAST_PLACES * 2.0 ** (1 - bits) * np.abs(how.low) + 1e-9 * size
        apart = np.abs(how.low - how.exact).max() > APART * np.abs(how.exact).max()
        if apart and (np.abs(how.low - advantages) <= allowed).all():
            return how
    return None


def _one_pass(view: View, members: list[Ints]) -> dict[str, Any] | None:
    found = []
    for places in members:
        variance = rounding.one_pass_variance(view.reward[places])
        kind = _one_pass_kind(view.reward[places], view.advantage[places], variance)
        if kind is not None and (kind == "off" or _recorded_as_nan(view, places)):
            found.append((places, kind, variance))
    if not found:
        return None
    worst, kind, variance = found[0]
    broken = kind == "nan"
    return report(
        view,
        "critical" if broken else "warning",
        f"{plural(len(found), 'group')} {'has' if len(found) == 1 else 'have'} recorded advantages of a "
        f"one-pass variance: E[x²] − E[x]² in float32 gives {number(variance)} for group "
        f"{view.group_ids[view.group[worst[0]]]!r}, where the variance is "
        f"{number(float(view.reward[worst].var()))} (ddof 0).",
        explanation="Squares of large numbers that hardly differ cancel: the result is off, and can be "
        "negative, whose root is NaN.",
        remedy="Subtract the mean first and square then (two passes), or use Welford's update; float64 where "
        "rewards are large.",
        evidence={
            "kind": "one-pass variance",
            "groups": len(found),
            "one_pass_variance_float32": variance,
            "variance_ddof0": float(view.reward[worst].var()),
            **_numbers(view, worst),
        },
        groups=[int(view.group[places[0]]) for places, _, _ in found],
        rollouts=np.concatenate([places for places, _, _ in found]),
    )


def _one_pass_kind(rewards: Floats, advantages: Floats, variance: float) -> str | None:
    """ "off" where the recorded spread is the one-pass one and no other; "nan" where it has no root."""
    if variance < 0 and np.isnan(advantages).all():
        return "nan"
    centred = rewards - rewards.mean()
    largest = int(np.argmax(np.abs(centred)))
    if variance <= 0 or not np.isfinite(advantages).all() or not centred[largest] or not advantages[largest]:
        return None
    used = centred[largest] / advantages[largest]
    if used <= 0 or (np.abs(advantages * used - centred) > 1e-3 * abs(centred[largest])).any():
        return None
    size = rewards.size
    wrong = (variance**0.5, (variance * size / (size - 1)) ** 0.5)
    right = (rewards.std(), rewards.std(ddof=1))
    off = all(abs(used - true) > APART * true for true in right)
    return "off" if off and any(abs(used - std) <= 1e-2 * std for std in wrong) else None


def _recorded_as_nan(view: View, places: Ints) -> bool:
    """A NaN was recorded as the advantage of these rollouts, not just nothing."""
    alone = view.scalars.get("advantage", {}).get("NaN")
    tokens = view.tokens.bad.get("advantages", {}).get("NaN")
    return bool(
        (alone is not None and np.isin(places, alone).all()) or (tokens is not None and tokens[places].all())
    )


def _grid(view: View) -> dict[str, Any] | None:
    scored = view.reward[view.scored]
    held = [(name, dtype) for name, dtype, _ in rounding.FORMATS if rounding.on_grid(scored, dtype).all()]
    if not held or not _odd_decimals(scored):
        return None
    name, dtype = held[0]
    groups = group_statistics(view.reward, view.group, view.groups)
    with np.errstate(invalid="ignore"):
        lost = np.abs(rounding.round_to(groups.mean, dtype) - groups.mean) > MEAN_OFF * groups.std
    found = np.flatnonzero(lost & groups.differing)
    if not found.size:
        return None
    first = int(found[np.argmin(groups.std[found])])
    mean = float(rounding.round_to(groups.mean[[first]], dtype)[0])
    return report(
        view,
        "warning",
        f"All rewards are numbers of {name}, and in {plural(found.size, 'group')} they differ by so few of "
        f"its steps that a mean in {name} loses them: {number(mean, 9)} instead of "
        f"{number(float(groups.mean[first]), 9)} in group {view.group_ids[first]!r}.",
        explanation="The reward was computed in 16 bits, so what differs within these groups is mostly "
        "rounding; dividing by their std makes full-size advantages of it.",
        remedy="Let the reward model give float32, at least from its last layer on, and turn rewards into "
        "float32 before the group statistics.",
        evidence={
            "kind": "rewards on the grid",
            "dtype": name,
            "groups": found.size,
            "low_precision_mean": mean,
            "mean": float(groups.mean[first]),
            "std_ddof1": float(groups.std[first]),
        },
        groups=found,
        rollouts=np.flatnonzero(np.isin(view.group, found)),
    )


def _odd_decimals(values: Floats) -> bool:
    """Some value needs more than five decimal digits: it comes from a network, not from counting."""
    rounded = np.array([float(f"{value:.{DIGITS - 1}e}") for value in np.unique(values).tolist()])
    return bool((rounded != np.unique(values)).any())


def _values(view: View) -> dict[str, Any] | None:
    state = view.facts["precision_loss"]
    if not state["on_grid"] or len(state["seen"]) < DIFFERENT or not state["changes"]:
        return None
    change, step = float(np.median(state["changes"])), float(np.median(state["steps"]))
    if HALF * step <= change:
        return None
    return report(
        view,
        "warning",
        f"All {plural(state['tokens'], 'critic value')} are numbers of bfloat16, whose step here "
        f"({number(step)}) is larger than the usual change from token to token ({number(change)}).",
        explanation="δ = r + γV' − V is then 0 or a whole step on most tokens: what GAE adds up is rounding.",
        remedy="Let the value head give float32.",
        evidence={"kind": "values on the grid", "dtype": "bfloat16", "step": step, "usual_change": change,
                  "tokens": state["tokens"]},
        rollouts=np.flatnonzero(view.valid != 0),
    )  # fmt: skip


def _numbers(view: View, places: Ints) -> dict[str, Any]:
    return {"rewards": view.reward[places][:SHOWN], "recorded": view.advantage[places][:SHOWN]}


FINDING = Finding("precision_loss", "Numbers that lost their meaning in few bits", check, observe, begin)
