"""The light columns of the last batches that were drawn: the figures of one page read them once, not each.

A ready batch never changes, so nothing here is ever stale; the arrays cannot be written to.
"""

from dataclasses import fields

import numpy as np

from storage import rollouts
from storage.database import ReadSession
from storage.kept import Kept
from storage.models import Batch
from storage.rollouts import Columns

#: About 300 bytes each.
MOST_ROLLOUTS = 131_072
_KEPT: Kept[str, Columns] = Kept(MOST_ROLLOUTS, lambda columns: columns.rollouts)


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
        for array in value.values() if isinstance(value, dict) else (value,):
            if isinstance(array, np.ndarray):
                array.flags.writeable = False
    _KEPT.keep({batch.id: found})
    return found
