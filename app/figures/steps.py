"""The steps of a run that its figures draw: the newest batch of each step of one split, as stored."""

from collections.abc import Sequence
from typing import Any

from app.figures.figure import Option
from app.figures.plotly import axis
from storage import runs
from storage.database import ReadSession
from storage.models import Run
from storage.runs import StepRow

MOST = 400
SPLIT = Option("text", "Only batches of this split; default: the split of most batches.")
LAST = Option("integer", "Only this many steps, the last ones.", MOST, least=1, most=MOST)
OPTIONS = {"split": SPLIT, "last": LAST}


def read_steps(session: ReadSession, run: Run, options: dict[str, Any]) -> tuple[list[StepRow], str]:
    """The rows to draw in step order, and words on what they are. Batches without a step are left out."""
    rows = [row for row in runs.plain_steps(session, run.id) if row.newest and row.step is not None]
    split = options["split"] if options["split"] is not None else _usual(rows)
    mine = [row for row in rows if row.split == split]
    kept = mine[-int(options["last"]) :]
    words = f"split {split}, " if split else ""
    words += f"the last {len(kept)} of {len(mine)} steps" if len(kept) < len(mine) else _count(len(kept))
    return runs.with_statistics(session, run.id, kept), words


def step_axis(rows: Sequence[StepRow]) -> dict[str, Any]:
    """The shared axis: whole steps only, also where there are just one or two."""
    steps = [row.step for row in rows]
    few = {"tickvals": steps, "ticktext": [str(step) for step in steps]} if len(steps) <= 12 else {}
    known = [step for step in steps if step is not None]
    return axis("step", tickformat="d", range=[min(known) - 0.6, max(known) + 0.6], **few)


def _usual(rows: Sequence[StepRow]) -> str | None:
    splits = [row.split for row in rows]
    return max(dict.fromkeys(splits), key=splits.count) if splits else None


def _count(steps: int) -> str:
    return "1 step" if steps == 1 else f"{steps} steps"
