"""Whole-batch tensors as rows: padded [B, T] with `response_lengths`, or ragged with `response_offsets` [B +
1].

Every array is read front to back in step, a few rows at a time, so memory does not grow with the batch.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from app.ingest import canonical
from app.ingest.notes import Notes
from app.ingest.record import PROMPT_FIELD, TOKEN_FIELDS, Item, Problem, Unreadable

CHUNK = 64
PER_TOKEN = frozenset((*TOKEN_FIELDS, PROMPT_FIELD))
#: Arrays that say how the others are laid out.
LAYOUT = frozenset(("response_lengths", "response_offsets", "prompt_lengths", "prompt_offsets"))
SAVE_LENGTHS = "Save response_lengths [B] (tokens of each row) beside the padded arrays"


class Array(Protocol):
    """An array that is read front to back. `take` gives the next `count` entries of the first axis."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    @property
    def dtype(self) -> np.dtype[Any]: ...

    def take(self, count: int) -> NDArray[Any]: ...


@dataclass(frozen=True, slots=True)
class _Span:
    """How one array's entries belong to rows: `lengths` tokens each, padded to a width or end to end."""

    lengths: NDArray[np.int64] | None
    ragged: bool


def rows(
    arrays: Mapping[str, Array], texts: list[Any] | None, alignment: str | None, notes: Notes
) -> Iterator[Item]:
    """Rollouts and problems. `texts`: one object of further fields per row. Raises Unreadable."""
    small = {name: _layout(name, arrays[name]) for name in LAYOUT & arrays.keys()}
    count = _row_count(arrays, small)
    spans = _spans(arrays, small, count, notes)
    singles = _singles(arrays, count, notes)
    if texts is not None and len(texts) != count:
        notes.warn(
            None, "rows", "length_mismatch", f"rows has {len(texts)} entries for {count} rows; left out"
        )
        texts = None
    yield from notes.drain()
    for start in range(0, count, CHUNK):
        stop = min(count, start + CHUNK)
        pieces = {name: _take(arrays[name], span, start, stop) for name, span in spans.items()}
        values = {name: arrays[name].take(stop - start) for name in singles}
        for index in range(start, stop):
            fields = _fields(index, start, pieces, values, texts)
            yield from _row(index + 1, fields, spans, arrays, index, alignment, notes)


def _row(
    number: int,
    fields: dict[str, Any],
    spans: dict[str, _Span],
    arrays: Mapping[str, Array],
    index: int,
    alignment: str | None,
    notes: Notes,
) -> Iterator[Item]:
    for name, span in spans.items():
        if span.ragged or span.lengths is None:
            continue
        length, width = int(span.lengths[index]), arrays[name].shape[1]
        if not 0 <= length <= width:
            message = (
                f"row {number}: its length is {length}, but {name} is {width} wide; the row was not taken"
            )
            yield Problem(message, "length_mismatch", "error", number, name)
            return
    item = canonical.rollout(number, fields, alignment, notes)
    yield from notes.drain()
    yield item


def _layout(name: str, array: Array) -> NDArray[np.int64]:
    if len(array.shape) != 1 or array.dtype.kind not in "iu":
        raise Unreadable(f"{name} is {describe(array)}; save it as one whole number per row.", "bad_layout")
    return array.take(array.shape[0]).astype(np.int64)


def _row_count(arrays: Mapping[str, Array], small: dict[str, NDArray[np.int64]]) -> int:
    if "response_offsets" in small:
        offsets = small["response_offsets"]
        if not offsets.size or offsets[0] != 0 or (np.diff(offsets) < 0).any():
            raise Unreadable(
                "response_offsets does not rise from 0; save cumulative token counts.", "bad_layout"
            )
        return offsets.size - 1
    if "response_lengths" in small:
        return small["response_lengths"].size
    wide = {name: array for name, array in arrays.items() if name in PER_TOKEN and len(array.shape) == 2}
    if "response_mask" in wide:
        return wide["response_mask"].shape[0]
    raise Unreadable(_missing(arrays, wide), "no_lengths")


def _missing(arrays: Mapping[str, Array], wide: Mapping[str, Array]) -> str:
    """What a file without lengths lacks, and what could still be shown of it."""
    if (ids := arrays.get("response_ids")) is not None and ids.dtype.kind == "f":
        return f"response_ids is {describe(ids)}: {inexact_ids(ids.dtype)}."
    held = ", ".join(f"{name} {describe(array)}" for name, array in arrays.items()) or "no array"
    wanted = ("response_lengths", "response_offsets", "response_mask", "response_ids")
    lacking = ", ".join(name for name in wanted if name not in arrays)
    shown = next((f"; all that could be shown is a heat map of {_by(a)} values" for a in wide.values()), "")
    unknown = f"which values are tokens and which padding is not said{shown}"
    return f"holds {held}, but no {lacking}: {unknown}. {SAVE_LENGTHS}."


def inexact_ids(dtype: np.dtype[Any]) -> str:
    """Why ids of a floating type cannot be used."""
    exact = {2: 2048, 4: 2**24}.get(dtype.itemsize, 2**53)
    return f"token ids cannot be exact above {exact} in {dtype}; save them as int32 or int64"


def _by(array: Array) -> str:
    return "×".join(map(str, array.shape))


def describe(array: Array) -> str:
    """ "float32 [2×3]"."""
    return f"{array.dtype} [{_by(array)}]"


def _spans(
    arrays: Mapping[str, Array], small: dict[str, NDArray[np.int64]], count: int, notes: Notes
) -> dict[str, _Span]:
    spans: dict[str, _Span] = {}
    for name in sorted(PER_TOKEN & arrays.keys()):
        array, side = arrays[name], "prompt" if name == PROMPT_FIELD else "response"
        offsets, lengths = small.get(f"{side}_offsets"), small.get(f"{side}_lengths")
        reason = None
        if name in (PROMPT_FIELD, "response_ids") and array.dtype.kind == "f":
            reason = inexact_ids(array.dtype)
        elif array.dtype.kind not in "iufb":
            reason = "it holds no numbers"
        elif offsets is not None:
            if array.shape != (int(offsets[-1]),) or offsets.size != count + 1:
                reason = f"{side}_offsets ends at {int(offsets[-1])} for {offsets.size - 1} rows"
        elif len(array.shape) != 2 or array.shape[0] != count:
            reason = f"there are {count} rows; give it as [{count}, T]"
        elif lengths is not None and lengths.size != count:
            reason = f"{side}_lengths has {lengths.size} entries for {count} rows"
        elif lengths is None and side == "prompt":
            reason = "prompt_lengths is missing"
        if reason is None:
            spans[name] = _Span(np.diff(offsets) if offsets is not None else lengths, offsets is not None)
        else:
            message = f"{name} is {describe(array)}, but {reason}; left out"
            notes.warn(None, name, "unusable_values", message)
    return spans


def _singles(arrays: Mapping[str, Array], count: int, notes: Notes) -> list[str]:
    """Names of the arrays with one value per row."""
    found = []
    for name, array in arrays.items():
        if name in PER_TOKEN or name in LAYOUT:
            continue
        if array.shape == (count,) and array.dtype.kind in "iufbUS":
            found.append(name)
        else:
            message = (
                f"{name} is {describe(array)}, neither one value per row nor a per-token field; left out"
            )
            notes.warn(None, name, "unusable_values", message)
    return found


def _take(array: Array, span: _Span, start: int, stop: int) -> list[NDArray[Any]]:
    """The tokens of rows start to stop, each in memory of its own."""
    if span.ragged:
        lengths = span.lengths[start:stop] if span.lengths is not None else np.zeros(0, np.int64)
        flat = array.take(int(lengths.sum()))
        ends = np.cumsum(lengths)
        return [flat[end - length : end].copy() for length, end in zip(lengths, ends, strict=True)]
    block = array.take(stop - start)
    if span.lengths is None:
        return [row.copy() for row in block]
    return [row[: max(0, int(n))].copy() for row, n in zip(block, span.lengths[start:stop], strict=True)]


def _fields(
    index: int,
    start: int,
    pieces: dict[str, list[NDArray[Any]]],
    values: dict[str, NDArray[Any]],
    texts: list[Any] | None,
) -> dict[str, Any]:
    own = texts[index] if texts is not None else None
    fields: dict[str, Any] = dict(own) if isinstance(own, dict) else {}
    for name, column in values.items():
        value = column[index - start].item()
        fields[name] = value.decode(errors="replace") if isinstance(value, bytes) else value
    for name, rows_of_name in pieces.items():
        fields[name] = rows_of_name[index - start]
    return fields
