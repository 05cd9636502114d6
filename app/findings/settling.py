"""A finding that is known only after the batch is there: put among those that stand already."""

from functools import partial
from typing import Any

from app.attempts import RECONCILIATION, Attempts
from app.findings import FINDINGS, recorded_advantages_disagree
from app.findings.finding import SEVERITIES, Report
from app.findings.reading import read_view
from storage import batches, unchecked
from storage.database import WriteSession


def settle(session: WriteSession, batch_id: str, reconciliation: dict[str, Any]) -> None:
    """Let the batch's findings say what its reconciliation (`app.reconciling.answer`) shows; the others stay.
    In the caller's transaction; a batch that is gone stays gone."""
    batch = batches.get(session, batch_id)
    if batch is None:
        return
    code, attempts = recorded_advantages_disagree.CODE, Attempts({"batch": batch_id})
    check = (code, recorded_advantages_disagree.TITLE)
    report = attempts.do(check, partial(_judge, session, batch_id, reconciliation), None)
    unchecked.forget(session, batch_id, (RECONCILIATION[0], code))
    unchecked.record(session, batch_id, attempts.failed)
    others = [said for said in batch.findings if said["code"] != code]
    found = others if report is None else [{"code": code, **report}, *others]
    order = list(FINDINGS)
    found.sort(key=lambda said: (SEVERITIES.index(said["severity"]), order.index(said["code"])))
    batches.revise_findings(session, batch_id, found)


def _judge(session: WriteSession, batch_id: str, reconciliation: dict[str, Any]) -> Report | None:
    view = read_view(session, batch_id, deep=False)
    return recorded_advantages_disagree.judge(view, reconciliation)
