"""A line whose values are lists over the samples of a batch: to one dict for each sample."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from app.ingest.notes import Notes


def transposed(
    row: int, fields: dict[str, Any], judge: str, notes: Notes, columns: frozenset[str] | None = None
) -> Iterator[dict[str, Any]]:
    """One dict for each entry of the list `judge`; values that are no list stand in every one of them.

    A list of another length is left out of the line, which is said: it is not known which entry is missing.
    `columns`: only these are lists over the samples; None: every list is.
    """
    size = len(fields[judge])
    lists: dict[str, Any] = {}
    single: dict[str, Any] = {}
    for name, value in fields.items():
        if not isinstance(value, (list, np.ndarray)) or (columns is not None and name not in columns):
            single[name] = value
        elif len(value) == size:
            lists[name] = value
        else:
            message = (
                f"{name} has {len(value)} entries, {judge} has {size}; left out of these rows, never padded, "
                "cut or shifted"
            )
            notes.warn(row, name, "length_mismatch", message)
    for index in range(size):
        yield single | {name: values[index] for name, values in lists.items()}
