"""Far more responses are cut off by the length limit than before.

Said where the truncated share rose by at least ten percentage points and to at least twice of what it was.
warning; critical from half of the rollouts on.

Seen as: a truncation ratio that keeps rising as training collapses, a blow-up of response length and clip
ratio (OpenClaw-RL#104, Trinity-RFT#176).

Remedy: raise the limit, look for loops in the responses that were cut off, decide whether they count
(masked, penalised, or bootstrapped).

Evidence: `before`, `now` (shares), `first_step_after`, `last_step_before`, `times_noise`.
"""

import math
from typing import Any

from app.findings.of_run.finding import RunFinding, RunReport, Steps, numbers, report
from app.findings.of_run.series import series, steps_of, turn
from app.formatting import integer, percent

RISE, TIMES, HALF = 0.1, 2.0, 0.5


def check(steps: Steps) -> RunReport | None:
    turned = turn(series(steps.rows, _share, _chance))
    if (
        turned is None
        or min(turned.now - turned.before, turned.halves) < RISE
        or turned.now < TIMES * turned.before
    ):
        return None
    return report(
        "critical" if turned.now >= HALF else "warning",
        f"{percent(turned.now)} of responses are cut off by the length limit ({steps_of(turned)}), "
        f"{percent(turned.before)} until step {integer(turned.last_before.step)}.",
        explanation="A response that was cut off has no end and mostly no answer, so its reward says little "
        "about the tokens it has; long reasoning that was on its way is punished like a wrong one.",
        remedy="Raise the limit, look for loops in these responses, and decide on purpose whether they "
        "count: masked, penalised, or bootstrapped.",
        evidence=numbers(turned),
        at=turned.at,
    )


def _share(said: dict[str, Any]) -> float | None:
    found = said.get("truncated") or {}
    return found["n"] / found["known"] if found.get("known") else None


def _chance(said: dict[str, Any]) -> float | None:
    """Standard error of a share of so many rollouts."""
    found = said.get("truncated") or {}
    if not found.get("known"):
        return None
    middle = (found["n"] + 1) / (found["known"] + 2)
    return math.sqrt(middle * (1 - middle) / (found["known"] + 2))


FINDING = RunFinding("truncation_jump", "More responses are cut off than before", check)
