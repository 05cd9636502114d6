"""Which rollouts of a batch a figure is about."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.errors import NotFound
from app.findings.view import groups_exist
from storage import batches
from storage.database import ReadSession
from storage.models import Batch
from storage.rollouts import Columns


def group_members(
    session: ReadSession, batch: Batch, columns: Columns, options: dict[str, Any]
) -> NDArray[np.int64]:
    """Positions in storage order of the group that option `group` names, else of all. Raises NotFound."""
    group_id = options.get("group")
    if group_id is None:
        return np.arange(columns.rollouts)
    group = batches.group(session, batch.id, str(group_id))
    if group is None:
        raise NotFound(f"The batch has no group {group_id!r}.")
    return np.flatnonzero(columns.group_no == group.group_no)


def source_codes(columns: Columns) -> tuple[NDArray[np.int64], list[str]]:
    """Dense number of each rollout's data source in order of appearance (−1: none), and their names."""
    listed = columns.data_source.tolist()
    names = [name for name in dict.fromkeys(listed) if name is not None]
    number = {None: -1, **{name: i for i, name in enumerate(names)}}
    return np.array(list(map(number.__getitem__, listed)), dtype=np.int64), names


def grouped(batch: Batch, columns: Columns) -> bool:
    """The batch's groups mean something: not every rollout just stands alone for want of a group id."""
    return groups_exist(str(batch.fields.get("group_id", "recorded")), columns.group_no)
