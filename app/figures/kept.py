"""The light columns of the last batches that were drawn: the figures of one page read them once, not each.

A ready batch never changes, so nothing here is ever stale; the arrays cannot be written to.
"""

import threading
from collections import OrderedDict
from dataclasses import fields

import numpy as np

from storage import rollouts
from storage.database import ReadSession
from storage.models import Batch
from storage.rollouts import Columns

#: About 300 bytes each.
MOST_ROLLOUTS = 131_072
_KEPT: OrderedDict[str, Columns] = OrderedDict()
_LOCK = threading.Lock()


def columns_of(session: ReadSession, batch: Batch) -> Columns:
    """`storage.rollouts.columns` of a batch; of one that is being written, always as it is now."""
    with _LOCK:
        if batch.id in _KEPT:
            _KEPT.move_to_end(batch.id)
            return _KEPT[batch.id]
    found = rollouts.columns(session, batch.id)
    if batch.state != "ready" or found.rollouts > MOST_ROLLOUTS:
        return found
    for field in fields(found):
        value = getattr(found, field.name)
        for array in value.values() if isinstance(value, dict) else (value,):
            if isinstance(array, np.ndarray):
                array.flags.writeable = False
    with _LOCK:
        _KEPT[batch.id] = found
        while sum(each.rollouts for each in _KEPT.values()) > MOST_ROLLOUTS:
            _KEPT.popitem(last=False)
    return found
