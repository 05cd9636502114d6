"""Arrays over prompt and response in one sequence: cut where the response begins, the first trained token."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.ingest import token_arrays
from app.ingest.notes import Notes
from app.ingest.record import Rollout

MASK = token_arrays.MASK
IDS = token_arrays.IDS


def set_tokens(record: Rollout, values: Mapping[str, Any], notes: Notes, start: int | None = None) -> None:
    """Prompt ids and per-token fields from values that cover the whole sequence, by canonical name.

    `response_ids` are the ids of the sequence. `start`: where the response begins; None: at the first token
    that the mask trains (nowhere, if it trains none: the whole sequence then counts as the response, which
    is said). A field of another length than the ids is left out of the row, which is said.
    """
    arrays: dict[str, NDArray[Any]] = {}
    for name, value in values.items():
        if value is not None and (array := token_arrays.read(record.row, name, value, notes)) is not None:
            arrays[name] = array
    if MASK in arrays and arrays[MASK].dtype != np.uint8:
        arrays["loss_weight"] = arrays.pop(MASK)
    arrays, _ = token_arrays.same_length(record.row, arrays, None, notes)
    if start is None:
        start = first_trained(record, arrays.get(MASK), notes)
    ids = arrays.get(IDS)
    if ids is not None and start:
        record.prompt_ids = ids[:start]
    record.tokens |= {name: array[start:] for name, array in arrays.items()}


def first_trained(record: Rollout, mask: NDArray[Any] | None, notes: Notes) -> int:
    """Where the mask trains for the first time; 0 where there is no mask or it trains nothing."""
    if mask is None:
        return 0
    trained = np.flatnonzero(mask)
    if trained.size:
        return int(trained[0])
    message = "no token is trained, so where the response begins is not known: all of it is shown as response"
    notes.tally(record.row, MASK, "no_trained_token", message, "warning")
    return 0


def spread(values: NDArray[Any], mask: NDArray[Any], fill: float) -> NDArray[Any] | None:
    """Values of the trained tokens alone, put where the mask is 1; None where the counts differ."""
    if values.shape[0] != int(mask.sum()):
        return None
    out = np.full(mask.shape[0], fill, dtype=np.float64)
    out[mask.astype(bool)] = values
    return out
