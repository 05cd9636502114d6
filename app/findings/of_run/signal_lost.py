"""The share of groups without signal (all rewards equal) rose and stayed up.

Said where it rose by at least 15 percentage points to at least a quarter of the groups. warning; critical
from half of the groups on. Less is the ordinary fate of a run whose prompts get easier.

Seen as: a loss and a gradient norm that fade while rewards look fine (AReaL#450, ART#10, OpenRLHF#1272).

Remedy: bring in harder prompts or filter solved ones (dynamic sampling), raise the number of samples.

Evidence: `before` and `now` (shares), `first_step_after`, `last_step_before`, `times_noise`.
"""

import math
from typing import Any

from app.findings.of_run.finding import RunFinding, RunReport, Steps, numbers, report
from app.findings.of_run.series import series, steps_of, turn
from app.formatting import integer, percent

RISE, MUCH, CRITICAL = 0.15, 0.25, 0.5


def check(steps: Steps) -> RunReport | None:
    turned = turn(series(steps.rows, lambda said: said.get("zero_signal_share"), _chance))
    if turned is None or min(turned.now - turned.before, turned.halves) < RISE or turned.now < MUCH:
        return None
    return report(
        "critical" if turned.now >= CRITICAL else "warning",
        f"{percent(turned.now)} of groups carry no signal ({steps_of(turned)}), {percent(turned.before)} "
        f"until step {integer(turned.last_before.step)}.",
        explanation="All rewards of such a group are equal, so its advantages are 0: the same generation "
        "cost teaches less and less, and what is left of the gradient is KL, entropy and noise.",
        remedy="Bring in prompts that are neither solved nor hopeless, filter the others (dynamic "
        "sampling), raise the number of samples per prompt.",
        evidence=numbers(turned),
        at=turned.at,
    )


def _chance(said: dict[str, Any]) -> float | None:
    """Standard error of a share of so many groups."""
    groups = sum((said.get("signal") or {}).get("groups", {}).values())
    share = said.get("zero_signal_share") or 0.0
    # One more and one less than counted, so that shares of 0 and 1 have an error too (Agresti–Coull).
    middle = (share * groups + 1) / (groups + 2)
    return math.sqrt(middle * (1 - middle) / (groups + 2)) if groups else None


FINDING = RunFinding("signal_lost", "Groups lost their signal", check)
