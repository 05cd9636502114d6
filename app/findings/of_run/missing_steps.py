"""Steps are missing between the first and the last.

The usual distance of two steps is the commonest one (a run that dumps every tenth step misses none). info;
warning from a tenth of the steps on.

Seen as: gaps in charts, running baselines and running whitening that do not agree with the trainer's
(slime#1519, trl#2045, prime-rl#1995).

Remedy: upload the missing dumps; look at whether the trainer skips steps (filtered, out of data,
restarted).

Evidence: `missing` (the first twenty), `missing_steps`, `present`, `usual_distance`.
"""

import numpy as np

from app.findings.of_run.finding import RunFinding, RunReport, Steps, report
from app.formatting import integer, plural

SHARE, SHOWN = 0.1, 20


def check(steps: Steps) -> RunReport | None:
    there = np.array(sorted({row.step for row in steps.rows if row.step is not None}), dtype=np.int64)
    if there.size < 3:
        return None
    gaps = np.diff(there)
    sizes, counts = np.unique(gaps, return_counts=True)
    usual = int(sizes[np.argmax(counts)])  # the smallest of the commonest
    wide = gaps > usual
    lost = int((gaps[wide] // usual - (gaps[wide] % usual == 0)).sum())
    if not lost or counts.max() <= 0.5 * gaps.size:
        return None
    missing = [step for i in np.flatnonzero(wide).tolist() for step in _between(there, i, usual)]
    after = next(row for row in steps.rows if row.step == int(there[np.flatnonzero(wide)[0] + 1]))
    share = lost / (lost + there.size)
    names = ", ".join(integer(step) for step in missing[:6]) + (" …" if lost > 6 else "")
    return report(
        "warning" if share >= SHARE else "info",
        f"{plural(lost, 'step')} {'is' if lost == 1 else 'are'} missing between {integer(int(there[0]))} and "
        f"{integer(int(there[-1]))}: {names}.",
        explanation="Running baselines and running whitening are made of earlier steps, so those that are "
        "computed here leave out what the trainer saw; a turn may hide in the gap.",
        remedy="Upload the missing dumps, or look at why the trainer wrote none (filtered batch, restart).",
        evidence={
            "missing": missing[:SHOWN],
            "missing_steps": lost,
            "present": int(there.size),
            "usual_distance": usual,
        },
        at=after,
    )


def _between(there: np.ndarray[tuple[int], np.dtype[np.int64]], i: int, usual: int) -> list[int]:
    return list(range(int(there[i]) + usual, int(there[i + 1]), usual))[:SHOWN]


FINDING = RunFinding("missing_steps", "Steps are missing", check)
