"""Critic values that stand one token beside the token they are the baseline of.

The baseline of token t is V before it was chosen; a column that holds V after each token is shifted by one,
and its first token has no baseline. Named where one of these shows it, and nothing recorded contradicts:

* `longer`: the file also has the values with one more entry than the response has tokens (a list with
  "value" in its name), and `values` are its last entries instead of its first;
* `returns`: returns − advantages are, up to whitening, the values moved by one token, and not the values;
* `recursion`: GAE's recursion holds between all adjacent tokens with the values moved by one, and not with
  the values (`app.findings.recursion`);
* `rewards`: rewards inside the response go along with the fall of the values one token beside them
  (correlation at least 0.5 over at least 200 tokens) and not where they are (less than a third of that). A
  critic expects a reward before it comes and no longer afterwards.

The first three are exact: four equations or more, each met to within 2e-4. critical for `longer`, `returns`
and `recursion`, warning for `rewards`.

A shift that went into the advantages as well, with rewards at the end only, leaves no trace in them: only
`longer` finds it.

Seen as: a value loss that does not fall below a floor, explained variance near 0 with values that look
right, advantages of the first token that equal its return (verl#1960, DeepSpeedExamples#672,
DeepSpeedExamples#741, OpenRLHF#676, trl#1893, llm_related#37).

Remedy: take the critic's output at the position *before* each response token (`values[:, start − 1 : −1]`).

Evidence: `shift` (+1: the column holds the value after the token; −1: the value before the one before it),
`by`, `rollouts`, `aligned` (rollouts that show the contrary), `first_baseline` (what the first token's
should have been, where the longer list says it), `correlations` by shift (for `rewards`).
"""

from typing import Any

import numpy as np

from app.findings.finding import Finding, Severity, report
from app.findings.part import Part
from app.findings.recursion import SAME, adjacent, parameters, recorded
from app.findings.view import Bools, Floats, View
from app.formatting import number, plural

EQUATIONS = 4
CORRELATION, RATIO, TOKENS = 0.5, 1 / 3, 200
SHIFTS = (0, 1, -1)
EXACT = ("longer", "returns", "recursion")


def begin(view: View) -> dict[str, Any]:
    return {
        "header": view.header,
        "reward": view.reward,
        "longer": view.longer_values,
        "shift": {by: np.zeros(view.rollouts, dtype=np.int8) for by in EXACT},
        "aligned": np.zeros(view.rollouts, dtype=bool),
        "first": None,
        "straight": False,
        "sums": np.zeros((3, 6)),
    }


def observe(part: Part, state: dict[str, Any]) -> None:
    value = part.floats("values")
    if value is None:
        return
    _against_longer(part, value, state)
    if state["aligned"].any():  # one stretch that shows them aligned decides
        return
    _against_returns(part, value, state)
    made = recorded(part, state["reward"][part.rows])
    if (
        made is not None
        and int(adjacent(part, made.known).sum()) >= EQUATIONS
        and "returns" not in part.names
    ):
        for shift in SHIFTS:
            if parameters(part, made, state["header"], shift) is not None:
                _note(part, state, "recursion", shift, part.count(part.mask) > 1)
                break
    _against_rewards(part, value, state)


def _note(part: Part, state: dict[str, Any], by: str, shift: int, rows: Bools) -> None:
    """What fits is the value recorded `shift` tokens on, so the column is shifted the other way."""
    if shift == 0:
        state["aligned"][part.rows] |= rows
    else:
        state["shift"][by][part.rows] = np.where(rows, -shift, 0)


def _against_longer(part: Part, value: Floats, state: dict[str, Any]) -> None:
    for place in [at for at in state["longer"] if part.rows.start <= at < part.rows.stop]:
        own = place - part.rows.start
        mine = value[part.starts[own] : part.starts[own] + part.lengths[own]]
        full = state["longer"][place]
        if not mine.size or full.size != mine.size + 1 or np.ptp(full) == 0:
            continue
        if np.allclose(mine, full[:-1], rtol=1e-5, atol=1e-7):
            state["straight"] = True
        elif np.allclose(mine, full[1:], rtol=1e-5, atol=1e-7):
            state["shift"]["longer"][place] = 1
            state["first"] = float(full[0]) if state["first"] is None else state["first"]


def _against_returns(part: Part, value: Floats, state: dict[str, Any]) -> None:
    """Which shift k makes R_t − V_{t+k} a line in A_t: slope and offset are those of a whitening."""
    returns, advantage = part.floats("returns"), part.floats("advantages")
    if returns is None or advantage is None:
        return
    live = part.mask & np.isfinite(returns) & np.isfinite(advantage) & np.isfinite(value)
    inner = np.zeros(part.tokens, dtype=bool)
    inner[1:-1] = live[:-2] & live[1:-1] & live[2:] & (part.owner[:-2] == part.owner[2:])
    at = np.flatnonzero(inner)
    if at.size < EQUATIONS or np.ptp(value[at]) == 0:
        return
    scale = float(max(np.abs(returns[at]).max(), np.abs(value[at]).max()))
    for shift in SHIFTS:
        if _is_line(advantage[at], returns[at] - value[at + shift], scale):
            _note(part, state, "returns", shift, part.count(inner) > 0)
            return


def _is_line(x: Floats, y: Floats, scale: float) -> bool:
    centred, wanted = x - x.mean(), y - y.mean()
    size = float(centred @ centred)
    slope = float(centred @ wanted) / size if size > 0 else 0.0
    return slope >= 0 and bool(np.abs(wanted - slope * centred).max() <= SAME * scale)


def _against_rewards(part: Part, value: Floats, state: dict[str, Any]) -> None:
    """Sums for the correlation of r_t with V_{t+k} − V_{t+k+1}, k = 0, −1, +1, on rewards inside a "
    "response."""
    rewards = part.floats("token_level_rewards")
    rewards = part.floats("token_level_scores") if rewards is None else rewards
    if rewards is None or part.tokens < 4:
        return
    live = part.mask & np.isfinite(value) & np.isfinite(rewards)
    run = live[:-3] & live[1:-2] & live[2:-1] & live[3:] & (part.owner[:-3] == part.owner[3:])
    at = np.flatnonzero(run) + 1
    if not at.size or not rewards[at].any():
        return
    r = rewards[at]
    for row, shift in enumerate((0, -1, 1)):
        fall = value[at + shift] - value[at + shift + 1]
        state["sums"][row] += (r.size, r.sum(), r @ r, fall.sum(), fall @ fall, r @ fall)


def _correlations(sums: Floats) -> dict[int, float]:
    found = {}
    for shift, (n, x, xx, y, yy, xy) in zip((0, -1, 1), sums.tolist(), strict=True):
        spread = (n * xx - x * x) * (n * yy - y * y)
        found[shift] = (n * xy - x * y) / spread**0.5 if n >= TOKENS and spread > 0 else 0.0
    return found


def check(view: View) -> dict[str, Any] | None:
    state = view.facts["values_misaligned"]
    # Advantages of shifted values obey the recursion with them: the longer list knows better.
    longer = not state["straight"] and bool(state["shift"]["longer"].any())
    if not longer and (state["straight"] or state["aligned"].any()):
        return None
    for by in EXACT:
        shifts = state["shift"][by]
        if shifts.any():
            shift = 1 if (shifts > 0).sum() >= (shifts < 0).sum() else -1
            return _report(view, state, by, shift, shifts == shift, {})
    found = _correlations(state["sums"])
    # Values that are moved to the left (the value after the token) fall one token earlier.
    for shift, other in ((1, -1), (-1, 1)):
        if found[other] >= CORRELATION and abs(found[0]) < RATIO * found[other]:
            correlations = {"as_given": found[0], "moved_back": found[-1], "moved_on": found[1]}
            return _report(view, state, "rewards", shift, view.valid > 0, correlations)
    return None


def _report(
    view: View, state: dict[str, Any], by: str, shift: int, rows: Bools, correlations: dict[str, float]
) -> dict[str, Any]:
    found = np.flatnonzero(rows)
    severity: Severity = "warning" if by == "rewards" else "critical"
    after = "the value after each token" if shift > 0 else "the value before the token before"
    first = state["first"]
    best, given = max(correlations.values(), default=0.0), correlations.get("as_given", 0.0)
    shown = {
        "longer": "they are the last entries of the longer list, not the first"
        + (f"; the first token's baseline {number(first)} is missing" if first is not None else ""),
        "returns": "returns − advantages are the values moved by one token",
        "recursion": "GAE holds between all adjacent tokens with the values moved by one, and not as they "
        "are",
        "rewards": f"they fall one token beside the rewards (correlation {number(best)}, {number(given)} "
        "as given)",
    }[by]
    return report(
        view,
        severity,
        f"The values of {plural(found.size, 'rollout')} are shifted by one token and hold {after}: {shown}.",
        explanation="The baseline of a token is what the critic expected before it. With the value after "
        "it, the token's own effect is subtracted from its credit, and the critic is trained towards the "
        "wrong position.",
        remedy="Take the critic's output at the position before each response token (from the last prompt "
        "token to the last but one), in the rollout as in the update.",
        evidence={
            "shift": shift,
            "by": by,
            "rollouts": found.size,
            "aligned": int(state["aligned"].sum()),
            "first_baseline": first,
            "correlations": correlations or None,
        },
        groups=np.unique(view.group[found]) if view.grouped else (),
        rollouts=found,
    )


FINDING = Finding("values_misaligned", "Values beside their tokens", check, observe, begin)
