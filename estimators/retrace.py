"""Whether one convention, with or without one mistake, can be what made the recorded advantages: the part of
a reconciliation that is about it, for those who try many batches for one answer.
"""

from dataclasses import replace

from estimators.batch import Batch
from estimators.conventions import CONVENTIONS
from estimators.reconcile_configured import as_configured
from estimators.reconcile_formulas import formulas
from estimators.reconcile_recorded import View, coarse_precision
from estimators.reconcile_search import Search
from estimators.reconcile_stages import right, wrong
from estimators.reconciliation import Hints, Recorded

NO_HINTS = Hints()


def retraced(
    batch: Batch, recorded: Recorded, convention: str, mistake: str | None, hints: Hints = NO_HINTS
) -> bool:
    """Whether a formula of the convention's estimator agrees, made wrong in just this way if it is wrong.

    Where this is False, `reconcile` does not name them either; it looks at everything, which takes longer.
    """
    batch, recorded = batch.to("cpu"), replace(recorded, advantages=recorded.advantages.cpu())
    view = View(batch, recorded)
    if not int((view.counts > 0).sum()):
        return False
    search = Search(batch, view, hints)
    if _agrees(search, convention, mistake):
        return True
    coarse = coarse_precision(view.values[view.taken] if recorded.per_token else view.values)
    if coarse is None or (search.configured is not None and search.configured.fit.matched):
        return False
    return _agrees(Search(batch, View(batch, recorded, coarse), hints), convention, mistake)


def _agrees(search: Search, convention: str, mistake: str | None) -> bool:
    search.configured = as_configured(search, search.hints)
    if search.configured is not None and search.configured.fit.matched:
        return mistake is None and convention == search.hints.convention
    estimator = CONVENTIONS[convention].estimator
    known = [each for each in formulas(search.batch, search.hints) if each.estimator == estimator]
    found = right(search, known) or right(search, known, others=True) or right(search, known, grid=True)
    if mistake is not None:
        wrong(search, known, beside=found and search.exact())
    return any(each.fit.matched and each.label == mistake for each in search.found)
