"""The spread of the recorded advantages changed by a large factor.

Said where the std over the rollouts' advantages is at least three times, or at most a third, of what it
was. Normalised advantages keep a std near 1 for a whole run, and those that are not change with the
rewards' std; a factor of three is neither. A fall that goes with groups losing their signal is said there,
and not here. warning.

Seen as: a plot of advantages over steps that gives a bug away, groups that changed with the batch
(PipelineRL#54, slime#1414).

Remedy: compare the batch where it begins with the one before it on the verify page: same convention, same
groups, same whitening.

Evidence: `before`, `now` (std, ddof 1), `ratio`, `first_step_after`, `last_step_before`.
"""

from app.findings.of_run import signal_lost
from app.findings.of_run.finding import RunFinding, RunReport, Steps, numbers, report
from app.findings.of_run.series import series, steps_of, turn
from app.formatting import integer, number

TIMES = 3.0


def check(steps: Steps) -> RunReport | None:
    turned = turn(series(steps.rows, lambda said: (said.get("advantage") or {}).get("std")))
    if turned is None or turned.before <= 0 or turned.now <= 0:
        return None
    ratio = turned.now / turned.before
    if 1 / TIMES < ratio < TIMES or (ratio < 1 and signal_lost.check(steps)):
        return None
    return report(
        "warning",
        f"Recorded advantages are {number(ratio if ratio > 1 else 1 / ratio, 2)} times as "
        f"{'large' if ratio > 1 else 'small'} as before: std {number(turned.now)} ({steps_of(turned)}), "
        f"{number(turned.before)} until step {integer(turned.last_before.step)} (ddof 1).",
        explanation="At an unchanged learning rate every step is now that much larger or smaller. "
        "Normalised advantages do not drift like this; a changed convention, group size or reward "
        "scale does.",
        remedy="Compare the batch where it begins with the one before it: convention, groups, whitening and "
        "reward scale.",
        evidence={**numbers(turned), "ratio": ratio},
        at=turned.at,
    )


FINDING = RunFinding("advantage_drift", "The size of the advantages changed", check)
