"""A finding that is known only after the batch is there: put among those that stand already."""

from typing import Any

from app.findings import FINDINGS, recorded_advantages_disagree
from app.findings.finding import SEVERITIES
from app.findings.reading import read_view
from storage import batches
from storage.database import WriteSession


def settle(session: WriteSession, batch_id: str, reconciliation: dict[str, Any]) -> None:
    """Let the batch's findings say what its reconciliation (`app.reconciling.answer`) shows; the others stay.
    In the caller's transaction; a batch that is gone stays gone."""
    batch = batches.get(session, batch_id)
    if batch is None:
        return
    code = recorded_advantages_disagree.CODE
    report = recorded_advantages_disagree.judge(read_view(session, batch_id, deep=False), reconciliation)
    others = [said for said in batch.findings if said["code"] != code]
    found = others if report is None else [{"code": code, **report}, *others]
    order = list(FINDINGS)
    found.sort(key=lambda said: (SEVERITIES.index(said["severity"]), order.index(said["code"])))
    batches.revise_findings(session, batch_id, found)
