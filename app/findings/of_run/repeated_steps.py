"""Steps of which more than one batch came in.

The newest counts, the others are shown as replaced. info, as a restart from a checkpoint does that; warning
where a fifth or more of the steps came in twice, which is two runs under one name, or parts of a step
uploaded one by one.

Seen as: curves that jump back, groups that are half as large as they should be (trackio#133, miles#2581,
verl#7785).

Remedy: give each run a name of its own; upload the files of one step together.

Evidence: `repeated_steps` (the first twenty), `batches_replaced`, `steps`.
"""

from app.findings.of_run.finding import RunFinding, RunReport, Steps, report
from app.formatting import integer, percent, plural

SHARE, SHOWN = 0.2, 20


def check(steps: Steps) -> RunReport | None:
    repeated = sorted({row.step for row in steps.replaced if row.step is not None})
    if not repeated:
        return None
    share = len(repeated) / max(len(steps.rows), 1)
    names = ", ".join(integer(step) for step in repeated[:6]) + (" …" if len(repeated) > 6 else "")
    first = next((row for row in steps.rows if row.step == repeated[0]), None)
    return report(
        "warning" if share >= SHARE else "info",
        f"{plural(len(repeated), 'step')} ({percent(share)}) came in more than once: {names}. The "
        "newest counts.",
        explanation="A restart from a checkpoint repeats steps. Two runs under one name do too, and then "
        "every curve is a mixture; parts of one step that were uploaded one by one replace each other.",
        remedy="Give each run a name of its own, and upload the files of one step together.",
        evidence={
            "repeated_steps": repeated[:SHOWN],
            "batches_replaced": len(steps.replaced),
            "steps": len(steps.rows),
        },
        at=first,
    )


FINDING = RunFinding("repeated_steps", "Steps came in more than once", check)
