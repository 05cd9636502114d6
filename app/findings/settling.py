"""A finding that is known only after the batch is there: put among those that stand already."""

from collections.abc import Callable
from functools import partial
from typing import Any

from app.attempts import RECONCILIATION, Attempts
from app.findings import FINDINGS, recorded_advantages_disagree, recorded_advantages_unchecked
from app.findings.finding import SEVERITIES, Report
from app.findings.reading import read_view
from app.findings.view import View
from storage import batches, unchecked
from storage.database import WriteSession


def settle(session: WriteSession, batch_id: str, reconciliation: dict[str, Any]) -> None:
    """Let the batch's findings say what its reconciliation (`app.reconciling.answer`) shows; the others stay.
    In the caller's transaction; a batch that is gone stays gone."""
    batch = batches.get(session, batch_id)
    if batch is None:
        return
    attempts = Attempts({"batch": batch_id})
    reports: dict[str, Report | None] = {}
    for each in (recorded_advantages_disagree, recorded_advantages_unchecked):
        judged = partial(_judge, session, batch_id, each.judge, reconciliation)
        reports[each.CODE] = attempts.do((each.CODE, each.TITLE), judged, None)
    unchecked.forget(session, batch_id, (RECONCILIATION[0], *reports))
    unchecked.record(session, batch_id, attempts.failed)
    found = [said for said in batch.findings if said["code"] not in reports]
    found += [{"code": code, **report} for code, report in reports.items() if report is not None]
    order = list(FINDINGS)
    found.sort(key=lambda said: (SEVERITIES.index(said["severity"]), order.index(said["code"])))
    batches.revise_findings(session, batch_id, found)


def _judge(
    session: WriteSession,
    batch_id: str,
    judge: Callable[[View, dict[str, Any]], Report | None],
    reconciliation: dict[str, Any],
) -> Report | None:
    return judge(read_view(session, batch_id, deep=False), reconciliation)
