"""The light columns of the last batches and estimates that were drawn: a page and its figures read them once.

A ready batch never changes, nor does a finished estimate (one that is computed anew finishes anew), so
nothing here is ever stale; the arrays cannot be written to.
"""

from collections.abc import Iterable
from dataclasses import fields
from typing import Any

from numpy.typing import NDArray

from storage import estimates, rollouts
from storage.database import ReadSession
from storage.kept import Kept
from storage.models import Batch, Estimate
from storage.rollouts import Columns

#: About 300 bytes each, and 56 of an estimate.
MOST_ROLLOUTS = 131_072
_KEPT: Kept[str, Columns] = Kept(MOST_ROLLOUTS, lambda columns: columns.rollouts)
_ESTIMATES: Kept[tuple[str, float], dict[str, NDArray[Any]]] = Kept(
    MOST_ROLLOUTS, lambda columns: int(columns["index"].size)
)


def columns_of(session: ReadSession, batch: Batch) -> Columns:
    """`storage.rollouts.columns` of a batch; of one that is being written, always as it is now."""
    kept = _KEPT.among([batch.id])
    if kept:
        return kept[batch.id]
    found = rollouts.columns(session, batch.id)
    if batch.state != "ready" or found.rollouts > MOST_ROLLOUTS:
        return found
    for field in fields(found):
        value = getattr(found, field.name)
        _close(value.values() if isinstance(value, dict) else (value,))
    _KEPT.keep({batch.id: found})
    return found


def estimate_columns(session: ReadSession, estimate: Estimate) -> dict[str, NDArray[Any]]:
    """`storage.estimates.columns` of an estimate; of one that is not finished, always as they are now."""
    if estimate.state != "succeeded" or estimate.finished is None:
        return estimates.columns(session, estimate.id)
    key = (estimate.id, estimate.finished)
    kept = _ESTIMATES.among([key])
    if kept:
        return kept[key]
    found = estimates.columns(session, estimate.id)
    if found["index"].size <= MOST_ROLLOUTS:
        _close(found.values())
        _ESTIMATES.keep({key: found})
    return found


def _close(arrays: Iterable[NDArray[Any]]) -> None:
    for array in arrays:
        array.flags.writeable = False
