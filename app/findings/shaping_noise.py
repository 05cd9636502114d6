"""Groups in which nobody is right, and a shaping reward alone makes winners and losers.

The component that judges the answer (by its name: correct, accuracy, pass, …; else the one that makes most
of the spread inside groups) is at its lowest in all of the group, and the rest of the reward differs by
less than 0.2 × the std that groups with right and wrong answers have: small beside a real contrast, yet std
scaling makes full-size advantages of it. (From 0.2 on, it is taken as meant: a format that is rewarded like
an answer.)

warning where such groups carry a tenth or more of all |advantage| (z-scores by group, ddof 1), info below;
critical from half on.

Seen as: hopeless prompts that still train, responses that grow or shrink while accuracy stands still, a
filter for zero variance that keeps all-fail groups (verl-recipe#125, trl#4841, prime-rl#1583, open-r1#213).

Remedy: what lowers the share of these groups on this batch, of four that are tried: filter groups by the
component that judges the answer instead of the total, give shaping only to right answers, do not divide by
the std, normalise components one by one (GDPO: it scales the shaping reward up as well, so it rarely helps).

Evidence: `component`, `noise_groups`, `compared_groups`, by group `range`, `largest_advantage` and
`share_of_abs_advantage`, the `share_of_all`, and `tried` (by remedy: `helps`, the `share` of these groups
then; of the filter also the `groups_left`).
"""

from typing import Any

import numpy as np

from app.findings import components, remedies
from app.findings.components import Components
from app.findings.finding import Finding, Severity, report
from app.findings.remedies import Tried
from app.findings.view import Bools, Floats, View
from app.formatting import number, percent, plural

SMALL = 0.2
NOTICED, MUCH = 0.1, 0.5
SHOWN = 20


def check(view: View) -> dict[str, Any] | None:
    parts = components.read(view)
    if parts is None:
        return None
    moved = components.varies(parts.centred, parts.group, view.groups)
    spread = components.deviation(parts.total, parts.group, view.groups)
    contrast = moved[:, parts.main]
    if not contrast.any():
        return None
    usual = float(np.median(spread[contrast]))
    with np.errstate(invalid="ignore"):
        noisy: Bools = ~contrast & (spread > 0) & (spread < SMALL * usual) & _failed(view, parts)
    if not noisy.any():
        return None
    return _report(view, parts, noisy, spread, usual)


def _failed(view: View, parts: Components) -> Bools:
    """`[G]` the component that judges the answer is at its lowest in all of the group."""
    main = parts.values[:, parts.main] * np.sign(parts.weights[parts.main] or 1.0)
    above = np.bincount(parts.group[main > main.min()], minlength=view.groups)
    count = np.bincount(parts.group, minlength=view.groups)
    found: Bools = (above == 0) & (count >= 2)
    return found


def _report(view: View, parts: Components, noisy: Bools, spread: Floats, usual: float) -> dict[str, Any]:
    found = np.flatnonzero(noisy)
    scores = np.abs(components.z_scores(parts.total, parts.group, view.groups))
    weight = np.bincount(parts.group, scores, minlength=view.groups)
    share = float(weight[found].sum() / weight.sum())
    severity: Severity = "critical" if share >= MUCH else "warning" if share >= NOTICED else "info"
    shown = found[:SHOWN].tolist()
    main = parts.names[parts.main]
    drivers = _drivers(parts, noisy)
    compared = int((np.bincount(parts.group, minlength=view.groups) >= 2).sum())
    tried = _tried(view, parts, noisy, share)
    return report(
        view,
        severity,
        f"In {found.size} of {plural(compared, 'group')} {main} is the same for all and at its lowest; what "
        f"differs is only {drivers} (std up to {number(float(spread[found].max()))}, ddof 1), and it carries "
        f"{percent(share)} of all |advantage| once divided by the std.",
        explanation=f"Groups with right and wrong answers have a std of {number(usual)}; dividing each group "
        "by its own makes both equally loud. These groups teach the shaping reward only, on prompts where "
        "every answer was wrong. A filter on the total reward keeps them.",
        remedy=remedies.advice(
            tried, f"Use prompts on which some answers are right, so that {main} differs."
        ),
        evidence={
            "component": main,
            "noise_groups": found.size,
            "compared_groups": compared,
            "share_of_all": share,
            "share_of_abs_advantage": {view.group_ids[g]: weight[g] / weight.sum() for g in shown},
            "range": {view.group_ids[g]: np.ptp(parts.total[parts.group == g]) for g in shown},
            "largest_advantage": {view.group_ids[g]: scores[parts.group == g].max() for g in shown},
            "median_std_of_contrast": usual,
            "tried": remedies.numbers_of(tried),
        },
        groups=found,
        rollouts=parts.places[noisy[parts.group]],
    )


def _tried(view: View, parts: Components, noisy: Bools, share: float) -> list[Tried]:
    """The share of these groups in all |advantage| under other rewards, or another scale."""
    main, inside, group = parts.names[parts.main], noisy[parts.group], parts.group
    answer = parts.values[:, parts.main] * parts.weights[parts.main]
    right = answer > answer.min()
    gated = np.where(right, parts.values @ parts.weights, answer)
    left = int(components.varies(parts.centred, group, view.groups)[:, parts.main].sum())
    ways = (
        ("filter", f"Filter groups by {main} instead of the total (it leaves {plural(left, 'group')})", 0.0),
        ("gate", f"Add the other components to right answers only ({main} above its lowest)",
         remedies.share_in(remedies.standardised(gated, group, view.groups), inside)),
        ("no_std", "Do not divide by the std (Dr. GRPO)", remedies.share_in(parts.total, inside)),
        ("gdpo", "Normalise the components one by one (GDPO)",
         remedies.share_in(remedies.gdpo(parts.values, parts.weights, group, view.groups), inside)),
    )  # fmt: skip
    return [
        Tried(
            name,
            then <= share / 2,
            f"{what}: these groups would carry {percent(then)} of all |advantage| (now {percent(share)}).",
            {"share": then} | ({"groups_left": left} if name == "filter" else {}),
        )
        for name, what, then in ways
    ]


def _drivers(parts: Components, noisy: Bools) -> str:
    """The names of the components that differ in these groups, the strongest first."""
    inside = parts.centred[noisy[parts.group]] * parts.weights
    size = np.abs(inside).sum(axis=0)
    return " and ".join(parts.names[k] for k in np.argsort(-size, kind="stable") if size[k] > 0)


FINDING = Finding("shaping_noise", "Shaping rewards make winners where all answers are wrong", check)
