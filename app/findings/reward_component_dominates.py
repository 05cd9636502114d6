"""A shaping reward that makes most of the advantage, while the answer's own reward hardly counts.

The share of a component is its weighted covariance with the reward inside prompt groups, over the reward's
variance there; shares sum to 1. Said where the component that judges the answer differs in at least a
quarter of the groups and has a share below 0.2, while another has at least 0.6. Which one judges the answer
is taken from its name (correct, accuracy, pass, …; not format, length, penalty, …); where no name says so,
it is a component of two values (right or wrong) beside one of at least five that dominates it.

warning; critical where the judging component's share is below 0.02, as its sign in an advantage is then
chance.

Seen as: reward that rises while accuracy does not, answers that get longer or prettier, a correctness
reward whose advantages look random (verl-recipe#125, trl#4841, SkyRL#2104, flow_grpo#188).

Remedy: what raises the answer's share on this batch, of three that are tried: a smaller weight of the other
component, each normalised within its group before adding (GDPO), other components for right answers only.

Evidence: `shares`, `weights`, `std_within_groups_ddof1` (of each component, unweighted), `dominates`,
`dominated`, `groups_where_the_answer_differs`, `share_of_advantages_against_the_answer`, `tried` (by remedy:
`helps`, the answer's `share` then, and the share of advantages `against_the_answer`).
"""

from typing import Any

import numpy as np

from app.findings import components, remedies
from app.findings.components import Components
from app.findings.finding import Finding, report
from app.findings.remedies import Tried
from app.findings.view import View
from app.formatting import number, percent, plural

WEAK, NOTHING, STRONG = 0.2, 0.02, 0.6
DIFFERS = 0.25
TWO, MANY = 2, 5
LEAST_GROUPS = 2


def check(view: View) -> dict[str, Any] | None:
    parts = components.read(view)
    if parts is None or not parts.total.any():
        return None
    top = int(np.argmax(parts.shares))
    main = parts.main if parts.named else _two_valued(parts, top)
    if main is None or main == top or parts.shares[top] < STRONG or parts.shares[main] >= WEAK:
        return None
    moved = components.varies(parts.centred, parts.group, view.groups)
    compared = int((np.bincount(parts.group, minlength=view.groups) >= 2).sum())
    found = np.flatnonzero(moved[:, main])
    if found.size < max(LEAST_GROUPS, DIFFERS * compared):
        return None
    return _report(view, parts, top, main, found, compared)


def _two_valued(parts: Components, top: int) -> int | None:
    """The component of two values, beside a dominating one of many; None where there is no such pair."""
    kinds = [np.unique(column).size for column in parts.values.T]
    two = [k for k, kind in enumerate(kinds) if kind == TWO]
    return two[0] if len(two) == 1 and kinds[top] >= MANY else None


def _report(view: View, parts: Components, top: int, main: int, found: Any, compared: int) -> dict[str, Any]:
    answer, other = parts.names[main], parts.names[top]
    judged = parts.centred[:, main] * np.sign(parts.weights[main] or 1.0)
    against = np.sign(judged) * np.sign(parts.total) < 0
    wrong = float(against.sum() / max(int((judged != 0).sum()), 1))
    tried = _tried(view, parts, top, main, wrong)
    freedom = max(parts.places.size - compared, 1)
    return report(
        view,
        "critical" if parts.shares[main] < NOTHING else "warning",
        f"{other} makes {percent(float(parts.shares[top]))} of the reward's variance inside groups, {answer} "
        f"{percent(max(float(parts.shares[main]), 0.0))}, although it differs in {found.size} of "
        f"{plural(compared, 'group')}.",
        explanation="An advantage is the distance to the siblings' rewards, so the component that spreads "
        f"most decides it: of the rollouts whose {answer} differs from their siblings', "
        f"{percent(wrong)} get an advantage of the opposite sign.",
        remedy=remedies.advice(tried, f"Train on {answer} alone first, or look at why it differs so little."),
        evidence={
            "dominates": other,
            "dominated": answer,
            "shares": dict(zip(parts.names, parts.shares, strict=True)),
            "weights": dict(zip(parts.names, parts.weights, strict=True)),
            "std_within_groups_ddof1": dict(
                zip(parts.names, np.sqrt((parts.centred**2).sum(axis=0) / freedom), strict=True)
            ),
            "groups_where_the_answer_differs": found.size,
            "share_of_advantages_against_the_answer": wrong,
            "tried": remedies.numbers_of(tried),
        },
        groups=found,
        rollouts=parts.places[against],
    )


def _tried(view: View, parts: Components, top: int, main: int, wrong: float) -> list[Tried]:
    """The answer's share of the spread under other rewards of the same rollouts."""
    answer, other = parts.names[main], parts.names[top]
    judged = parts.centred[:, main] * np.sign(parts.weights[main] or 1.0)
    spread = np.abs(parts.weights) * np.sqrt((parts.centred**2).sum(axis=0))
    factor = float(spread[main] / spread[top])
    smaller = parts.weights * np.where(np.arange(parts.weights.size) == top, factor, 1.0)
    scores = components.apart(parts.values, parts.group, view.groups)
    right = parts.values[:, main] * np.sign(parts.weights[main] or 1.0)
    rest = np.where(
        right > right.min(), parts.values @ parts.weights, parts.values[:, main] * parts.weights[main]
    )
    gated = components.centre(rest[:, None], parts.group, view.groups)[:, 0]
    ways = (
        ("smaller_weight", f"Give {other} {number(factor)} of its weight", parts.centred,
         parts.centred @ smaller),
        ("gdpo", "Normalise each component within its group before they are added (GDPO)", scores,
         scores @ parts.weights),
        ("gate", f"Add the other components to right answers only ({answer} above its lowest)", parts.centred,
         gated),
    )  # fmt: skip
    made = []
    for name, what, columns, total in ways:
        weight = (smaller if name == "smaller_weight" else parts.weights)[main]
        size = float(total @ total)
        share = weight * float(columns[:, main] @ total) / size if size > 0 else 0.0
        opposite = np.sign(judged) * np.sign(remedies.settled(total)) < 0
        left = float(opposite.sum() / max(int((judged != 0).sum()), 1))
        sentence = (
            f"{what}: {answer} would make {percent(share)} of the variance, and {percent(left)} of the "
            f"advantages would have the opposite sign (now {percent(wrong)})."
        )
        helps = share >= 2 * max(WEAK, float(parts.shares[main])) and left <= wrong / 2
        made.append(Tried(name, helps, sentence, {"share": share, "against_the_answer": left}))
    return made


FINDING = Finding("reward_component_dominates", "A shaping reward drowns the answer's own", check)
