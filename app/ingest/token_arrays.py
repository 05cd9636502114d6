"""Per-token values of one row: to arrays of the right type, all of one length, or dropped with a sentence."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.ingest.json_rows import FLOAT_LISTS, INT_LISTS, Overflow, a_kind
from app.ingest.notes import Notes
from app.ingest.record import PROMPT_FIELD
from storage.arrays import MISSING, is_missing

MASK = "response_mask"
IDS = "response_ids"
LOG_PROBS = frozenset(("old_log_probs", "ref_log_probs", "rollout_log_probs"))
#: Fields whose values often are whole by nature; in others a whole type means that fractions were lost.
OFTEN_WHOLE = frozenset(("token_level_rewards", "token_level_scores", "loss_weight"))
FLOAT32_MAX = float(np.finfo(np.float32).max)
_NONFINITE = {"NaN": np.nan, "Infinity": np.inf, "-Infinity": -np.inf}


class _Unusable(Exception):
    """Why a list cannot be taken as it is."""


def read(row: int, name: str, value: Any, notes: Notes) -> NDArray[Any] | None:
    """The array of one per-token field, or None with a problem said.

    Ids become int64, float fields float64 or float32, the mask uint8 where it holds 0 and 1 only (else it
    comes back as float64, which the caller keeps as `loss_weight`). Null inside a list becomes `MISSING`.
    """
    try:
        array = value if isinstance(value, np.ndarray) else _from_list(name, value)
        if array.ndim != 1:
            raise _Unusable(
                f"holds lists inside the list ({array.ndim} dimensions); give one flat list per row"
            )
        if name in FLOAT_LISTS:
            return _floats(row, name, array, notes)
        return _ids(row, name, array, notes) if name in (IDS, PROMPT_FIELD) else _mask(array)
    except _Unusable as problem:
        notes.warn(row, name, "unusable_values", f"{name} {problem}; left out")
        return None


def _from_list(name: str, value: Any) -> NDArray[Any]:
    if not isinstance(value, Sequence) or isinstance(value, str):
        raise _Unusable(f"is {a_kind(value)}, not a list")
    for index, item in enumerate(value):
        _check(name, index, item)
    if name in INT_LISTS and all(type(item) is int for item in value):
        return np.array(value, dtype=np.int64)
    return np.array([MISSING if item is None else item for item in value], dtype=np.float64)


def _check(name: str, index: int, item: Any) -> None:
    if item is None and name in FLOAT_LISTS:
        return
    if isinstance(item, bool):
        if name != MASK:
            raise _Unusable(f"holds {str(item).lower()} at position {index}, which is no number")
        return
    if isinstance(item, Overflow):
        raise _Unusable(f"holds {_short(item.text)} at position {index}, which no float64 can hold")
    if isinstance(item, int):
        if not -(2**63) <= item < 2**63:
            raise _Unusable(f"holds {_short(str(item))} at position {index}, which is past 64 bits")
        return
    if not isinstance(item, float):
        raise _Unusable(f"holds {a_kind(item)} at position {index}, which is no number")


def _short(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:37]}…"


def _floats(row: int, name: str, array: NDArray[Any], notes: Notes) -> NDArray[Any]:
    if array.dtype == bool:
        raise _Unusable("holds true and false, which are no numbers")
    if array.dtype.kind in "iu":
        message = f"{name} holds whole numbers only ({array.dtype}); read as numbers"
        notes.tally(row, name, "integer_values", message, "info" if name in OFTEN_WHOLE else "warning")
    if array.dtype not in (np.float64, np.float32):
        if array.dtype.kind not in "iuf":
            raise _Unusable(f"is of type {array.dtype}, not of numbers")
        array = array.astype(np.float32 if array.dtype == np.float16 else np.float64)
    if array.size:
        _look(row, name, array, notes)
    return array


def _look(row: int, name: str, array: NDArray[Any], notes: Notes) -> None:
    """Count what is not finite or not plausible. One sum tells whether a closer look is needed."""
    with np.errstate(all="ignore"):
        total = float(array.sum())
    if total - total != 0:
        tally_nonfinite(name, array, notes)
    if array.dtype == np.float64 and float(np.abs(array).max()) > FLOAT32_MAX and np.isfinite(array).all():
        notes.tally(
            row, name, "past_float32", f"{name} holds values past float32; kept as float64", "warning"
        )
    if name in LOG_PROBS:
        _look_at_log_probs(row, name, array, notes)


def tally_nonfinite(name: str, array: NDArray[Any], notes: Notes) -> None:
    """Count NaN, Infinity and -Infinity (nulls inside lists are not among them)."""
    missing = is_missing(array)
    for label, found in (
        ("NaN", np.isnan(array) & ~missing),
        ("Infinity", np.isposinf(array)),
        ("-Infinity", np.isneginf(array)),
    ):
        if count := int(found.sum()):
            notes.nonfinite(name, label, count)


def _look_at_log_probs(row: int, name: str, array: NDArray[Any], notes: Notes) -> None:
    positive = int((array > 0).sum())
    if positive * 2 > array.size:
        message = f"{name} are above 0: are these probabilities? Record their logarithm"
        notes.tally(row, name, "positive_log_probs", message, "warning")
    elif positive:
        notes.tally(row, name, "some_positive_log_probs", f"{name} holds single values above 0")


def _ids(row: int, name: str, array: NDArray[Any], notes: Notes) -> NDArray[np.int64]:
    if array.dtype.kind == "f":
        raise _Unusable(
            f"holds fractions or nulls ({array.dtype}), which are no token ids; write whole numbers"
        )
    if array.dtype.kind not in "iu" or array.dtype == np.uint64:
        raise _Unusable(f"is of type {array.dtype}, not of token ids")
    ids = array.astype(np.int64, copy=False)
    if ids.size and int(ids.min()) < 0:
        labels, others = int((ids == -100).sum()), int((ids < 0).sum())
        if labels == others:
            message = f"{labels} masked labels (-100) in {name}: no token ids, shown as such and not decoded"
        else:
            message = f"{others} negative values in {name}: no token ids, shown as such and not decoded"
        notes.warn(row, name, "negative_ids", message)
    return ids


def _mask(array: NDArray[Any]) -> NDArray[Any]:
    if array.dtype.kind not in "iufb":
        raise _Unusable(f"is of type {array.dtype}, not of 0 and 1")
    if array.dtype == bool or bool(((array == 0) | (array == 1)).all()):
        return array.astype(np.uint8)
    if array.dtype.kind != "f" or not np.isfinite(array).all():
        raise _Unusable("holds values other than 0 and 1")
    return array.astype(np.float64)


def same_length(
    row: int, arrays: dict[str, NDArray[Any]], tokens: list[str] | None, notes: Notes
) -> tuple[dict[str, NDArray[Any]], list[str] | None]:
    """Only the arrays with as many values as `response_ids` has (else `response_tokens`, the mask, the
    majority).
    """
    sizes = {name: array.shape[0] for name, array in arrays.items()}
    if tokens is not None:
        sizes["response_tokens"] = len(tokens)
    if len(set(sizes.values())) <= 1:
        return arrays, tokens
    judge = next((name for name in (IDS, "response_tokens", MASK) if name in sizes), None)
    counts = list(sizes.values())
    length = sizes[judge] if judge else max(counts, key=counts.count)
    against = f"{judge} has {length}" if judge else f"most fields have {length}"
    for name, size in sizes.items():
        if size != length:
            message = (
                f"{name} has {size} values, {against}; left out of this row, never padded, cut or shifted"
            )
            notes.warn(row, name, "length_mismatch", message)
    kept = {name: array for name, array in arrays.items() if sizes[name] == length}
    return kept, tokens if sizes.get("response_tokens", length) == length else None


def fill_nonfinite(row: int, fields: dict[str, Any], listing: Any, notes: Notes) -> None:
    """Put back what `_nonfinite` lists: {"field": {"0": "-Infinity"}}, or {"reward": "NaN"} for a number."""
    if not isinstance(listing, dict):
        notes.warn(row, "_nonfinite", "bad_nonfinite", "_nonfinite is not an object; ignored")
        return
    for name, entry in listing.items():
        try:
            if isinstance(entry, str):
                fields[name] = _NONFINITE[entry] if fields.get(name) is None else fields[name]
            else:
                values = list(fields[name])
                for index, label in entry.items():
                    if values[int(index)] is None:
                        values[int(index)] = _NONFINITE[label]
                fields[name] = values
        except (KeyError, IndexError, ValueError, TypeError, AttributeError):
            message = f"_nonfinite of {name} does not fit its values; ignored"
            notes.warn(row, name, "bad_nonfinite", message)
