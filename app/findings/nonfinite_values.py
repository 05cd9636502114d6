"""Numbers that are not numbers, and rewards that are missing beside rewards that are there.

Seen as: a loss of NaN some steps later, groups that turn into NaN as a whole, missing rewards counted as 0
(trl#5773, trl#5902, OpenRLHF#1314, NeMo-RL#4161).

Remedy: find the first step and field in which they appear; give a missing reward as null, and leave such
rollouts out of their group's mean.

Evidence: `unscored_rollouts`, `nonfinite_rewards`, `numbers` and `tokens` by field and kind, `rollouts`,
`groups_with_one_score`, `groups_with_no_score`.
"""

from typing import Any

import numpy as np

from app.findings.finding import Finding, Severity, report
from app.findings.view import View
from app.formatting import integer, plural


def check(view: View) -> dict[str, Any] | None:
    odd = np.array([kind is not None for kind in view.nonfinite.tolist()], dtype=bool)
    missing = ~view.scored & ~odd if view.scored.any() else np.zeros(view.rollouts, dtype=bool)
    fields = {
        name: {kind: int(n.sum()) for kind, n in kinds.items()} for name, kinds in view.tokens.bad.items()
    }
    scalars = {name: {kind: len(at) for kind, at in kinds.items()} for name, kinds in view.scalars.items()}
    rows = odd | missing
    for places in (at for kinds in view.scalars.values() for at in kinds.values()):
        rows[places] = True
    for kinds in view.tokens.bad.values():
        for tokens in kinds.values():
            rows |= tokens > 0
    if not rows.any():
        return None
    groups = np.bincount(view.group[view.scored], minlength=view.groups)
    kinds_of_reward = {kind: int((view.nonfinite == kind).sum()) for kind in ("NaN", "Infinity", "-Infinity")}
    return report(
        view,
        _severity(view, bool(odd.any() or scalars)),
        "; ".join(_sentences(view, int(odd.sum()), int(missing.sum()), scalars, fields)) + ".",
        explanation="One NaN or infinity in a group's rewards makes the mean and every advantage of the "
        "group NaN; one in a whitened batch makes the whole step NaN, also on a masked token, as NaN × 0 is "
        "NaN. A missing reward read as 0 becomes a failure that nobody observed.",
        remedy="Find the first such value (a scorer that timed out, log of 0, division by an empty count); "
        "leave unscored rollouts out of the group's statistics. Vantage leaves out those without a recorded "
        "reward and shows them as not scored; a recorded NaN or infinity it computes on as the convention's "
        "framework does, and does not repair.",
        evidence={
            "unscored_rollouts": int(missing.sum()),
            "nonfinite_rewards": {kind: n for kind, n in kinds_of_reward.items() if n},
            "numbers": scalars,
            "tokens": fields,
            "rollouts": view.rollouts,
            "groups_with_one_score": int((groups == 1).sum()) if view.grouped else None,
            "groups_with_no_score": int((groups == 0).sum()) if view.grouped else None,
        },
        groups=np.unique(view.group[rows]) if view.grouped else (),
        rollouts=np.flatnonzero(rows),
    )


def _severity(view: View, odd_rewards: bool) -> Severity:
    worst = {kind for kinds in view.tokens.bad.values() for kind in kinds}
    if odd_rewards or worst & {"NaN", "Infinity", "-Infinity"}:
        return "critical"
    return "warning"


Counts = dict[str, dict[str, int]]


def _sentences(view: View, odd: int, missing: int, numbers: Counts, tokens: Counts) -> list[str]:
    said = []
    for count, what in ((odd, "a reward that is NaN or infinite"), (missing, "no reward")):
        if count:
            said.append(
                f"{count} of {plural(view.rollouts, 'rollout')} {'has' if count == 1 else 'have'} {what}"
            )
    for name, kinds in [*sorted(numbers.items()), *sorted(tokens.items())]:
        parts = " and ".join(f"{integer(count)} {kind}" for kind, count in kinds.items())
        said.append(f"{name} has {parts}")
    return said


FINDING = Finding("nonfinite_values", "Values that are NaN, infinite or missing", check)
