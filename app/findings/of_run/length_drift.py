"""Responses became much longer or much shorter, and stayed so.

Said where the mean length is at least twice or at most half of what it was before the turn. Longer: info
while the mean reward rises with it, by more than one step's chance (reasoning that pays), warning
otherwise. Shorter: warning.

Seen as: very long sequences of gibberish, response lengths that decline over time (trl#3138, EasyR1#40,
VLM-R1#280).

Remedy: look at the loss aggregation and at length-dependent rewards, at the truncated share, and at the
longest or shortest responses of the batch where it begins.

Evidence: `before`, `now` (tokens), `ratio`, `reward_before`, `reward_now`, `first_step_after`.
"""

import numpy as np

from app.findings.finding import Severity
from app.findings.of_run.finding import RunFinding, RunReport, Steps, numbers, report
from app.findings.of_run.series import Turn, noise, series, steps_of, turn
from app.formatting import integer, number

TIMES = 2.0


def check(steps: Steps) -> RunReport | None:
    turned = turn(series(steps.rows, lambda said: ((said.get("length") or {}).get("all") or {}).get("mean")))
    if turned is None or turned.before <= 0 or turned.now <= 0:
        return None
    ratio = turned.now / turned.before
    if 1 / TIMES < ratio < TIMES:
        return None
    before, now, chance = _rewards(steps, turned)
    pays = ratio > 1 and before is not None and now is not None and now - before > chance
    severity: Severity = "info" if pays else "warning"
    return report(
        severity,
        f"Responses are {number(ratio if ratio > 1 else 1 / ratio, 2)} times as "
        f"{'long' if ratio > 1 else 'short'} as before: "
        f"{number(turned.now)} tokens ({steps_of(turned)}), {number(turned.before)} until step "
        f"{integer(turned.last_before.step)}.",
        explanation="The mean reward rose with it, so the tokens may be well spent."
        if pays
        else "The mean reward did not rise with it. Length is then learned for its own sake: by how the loss "
        "is averaged, by a reward that depends on it, or by loops that end at the limit.",
        remedy="Look at the loss aggregation (a mean over each response favours long wrong answers), at "
        "rewards that depend on length, and at the responses of the batch where it begins.",
        evidence={**numbers(turned), "ratio": ratio, "reward_before": before, "reward_now": now},
        at=turned.at,
    )


def _rewards(steps: Steps, turned: Turn) -> tuple[float | None, float | None, float]:
    """Median of the mean rewards before the turn and since, and what one step's mean differs by chance."""
    means = series(steps.rows, lambda said: (said.get("reward") or {}).get("mean"))
    later = np.array([(row.step or 0) >= (turned.at.step or 0) for row in means.rows], dtype=bool)
    if not later.any() or later.all():
        return None, None, 0.0
    before, now = (float(np.median(means.values[half])) for half in (~later, later))
    return before, now, noise(means)


FINDING = RunFinding("length_drift", "Responses became much longer or shorter", check)
