"""Canonical safetensors: padded or ragged arrays; `__metadata__` holds `rollout_batch` and, per row, `rows`
as JSON.
"""

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open

from app.ingest import tensors
from app.ingest.canonical_parquet import batch_metadata
from app.ingest.notes import Notes
from app.ingest.record import Format, Header, Item, Source, Unreadable
from app.ingest.sources import looks_like_safetensors
from app.settings import Settings

DTYPES: dict[str, str] = {
    "F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2",
    "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "<i1",
    "U64": "<u8", "U32": "<u4", "U16": "<u2", "U8": "<u1", "BOOL": "|b1",
}  # fmt: skip


class _Tensor:
    """One tensor, read from the file as needed. bfloat16, which numpy lacks, becomes float32 (exactly)."""

    def __init__(self, path: Path, base: int, entry: dict[str, Any]) -> None:
        self._bf16 = entry["dtype"] == "BF16"
        stored = np.dtype(DTYPES[entry["dtype"]])
        self.shape: tuple[int, ...] = tuple(entry["shape"])
        self.dtype: np.dtype[Any] = np.dtype(np.float32) if self._bf16 else stored
        start = base + entry["data_offsets"][0]
        empty = math.prod(self.shape) == 0
        self._values: NDArray[Any] = (
            np.zeros(self.shape, stored) if empty else np.memmap(path, stored, "r", start, self.shape)
        )
        self._at = 0

    def take(self, count: int) -> NDArray[Any]:
        values = np.array(self._values[self._at : self._at + count])
        self._at += count
        if self._bf16:
            return (values.astype(np.uint32) << 16).view(np.float32)
        return values


def sniff(source: Source, settings: Settings) -> bool:
    return looks_like_safetensors(source.head) and source.path is not None


def read(source: Source, settings: Settings) -> Iterator[Item]:
    if source.path is None:
        raise Unreadable("not a valid safetensors file.", "not_safetensors")
    entries, base = _header(source.path)
    texts = entries.pop("__metadata__", {})
    notes = Notes()
    header = Header(raw=batch_metadata(texts.get("rollout_batch"), notes))
    arrays = _tensors(source.path, base, entries, notes)
    per_row = _rows(texts.get("rows"), notes)
    yield header
    yield from notes.drain()
    yield from tensors.rows(arrays, per_row, header.raw.get("alignment"), notes)
    yield from notes.summary()


def _header(path: Path) -> tuple[dict[str, Any], int]:
    """Name -> dtype, shape and place of each tensor, and where the tensors begin; checked by safetensors
    itself.
    """
    try:
        with safe_open(path, "np") as file:
            file.keys()
        with open(path, "rb") as stream:
            length = int.from_bytes(stream.read(8), "little")
            return json.loads(stream.read(length)), 8 + length
    except (SafetensorError, OSError, ValueError, RecursionError):
        message = (
            "not a valid safetensors file: its header is damaged. Save it again with safetensors.save_file."
        )
        raise Unreadable(message, "not_safetensors") from None


def _tensors(path: Path, base: int, entries: dict[str, Any], notes: Notes) -> dict[str, tensors.Array]:
    found: dict[str, tensors.Array] = {}
    for name in sorted(entries):
        kind = entries[name]["dtype"]
        if kind in DTYPES:
            found[name] = _Tensor(path, base, entries[name])
        else:
            notes.warn(
                None, name, "unusable_values", f"{name} is of type {kind}, which is not read; save float32"
            )
    return found


def _rows(text: str | None, notes: Notes) -> list[Any] | None:
    if text is None:
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    if isinstance(value, list):
        return value
    notes.warn(None, "rows", "bad_metadata", "the metadata entry rows is not a JSON list; ignored")
    return None


FORMAT = Format("canonical-safetensors", "Canonical rollout arrays, safetensors", sniff, read)
