"""A TensorDict that was memory-mapped (TorchRL): a folder with meta.json and one raw file a tensor.

meta.json says type and shape of each NAME.memmap; a folder in it is a TensorDict inside, texts are in the
meta.json of their folder. Upload the folder (or a zip of it): the raw files say nothing by themselves.
"""

import json
import mmap
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from app.inert import nested, tensors
from app.inert.values import Jagged, Refused, Storage, Tensor
from app.ingest import beside, documents, named_rows, names
from app.ingest.notes import Notes
from app.ingest.record import About, Format, Header, Item, Rollout, Source, Unreadable
from app.settings import Settings

MAX_META = 64 << 20
DEEPEST = 8
NAME = "meta.json"
ENDING = ".memmap"
OURS = frozenset(("shape", "device", "_type", "_class", "_format_version"))


def _is_meta(source: Source) -> bool:
    return (
        "_type" in documents.keys(source) and b"tensordict" in source.head and documents.is_document(source)
    )


def sniff(source: Source, settings: Settings) -> bool:
    return _is_meta(source) and named_rows.is_rollouts(documents.keys(source))


def sniff_part(source: Source, settings: Settings) -> bool:
    """Raw files have no mark: their name alone says what they are."""
    if source.name.endswith(ENDING):
        return True
    return _is_meta(source) and not named_rows.is_rollouts(documents.keys(source))


def read_part(source: Source, settings: Settings) -> Iterator[Item]:
    yield Header()


def read(source: Source, settings: Settings) -> Iterator[Item]:
    notes, parts = Notes(), beside.of(source)
    if parts is None:
        raise Unreadable("its .memmap files are not there; upload the whole folder.", "missing_files")
    with ExitStack() as stack:
        reader = _Reader(source, parts, notes, stack)
        with source.open() as stream:
            meta = _json(stream.read(MAX_META))
        columns = reader.columns(meta, names.folder_of(source.trail), DEEPEST)
        size = _first(meta.get("shape"))
        yield from notes.drain()
        if not columns or size is None:
            raise Unreadable("its .memmap files are not there; upload the whole folder.", "missing_files")
        if not any(_fits(column, size) for column in columns.values()):
            raise Unreadable(
                f"its meta.json says {_told(size)} rows, and none of its arrays has as many; "
                "copy the folder again.",
                "bad_metadata",
            )
        yield Header(raw={"framework": "tensordict"})
        for index in range(size):
            fields = {name: _entry(column, index) for name, column in columns.items() if _fits(column, size)}
            item = named_rows.rollout(index + 1, fields, notes, padded=True)
            if isinstance(item, Rollout):
                names.fill(item, names.step(source), names.split(source))
            yield from notes.drain()
            yield item
    yield from notes.summary()


def _told(size: int) -> str:
    return str(size) if size < 10**12 else "more than a million million"


def _json(data: bytes) -> dict[str, Any]:
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise Unreadable("its meta.json is damaged; copy the folder again.", "bad_metadata")
    return value


def _first(shape: Any) -> int | None:
    return shape[0] if isinstance(shape, list) and shape and type(shape[0]) is int and shape[0] >= 0 else None


def _fits(column: Any, size: int) -> bool:
    if isinstance(column, Tensor):
        return column.shape[:1] == (size,)
    return bool((column.lengths.shape[0] if isinstance(column, Jagged) else len(column)) == size)


def _entry(column: Any, index: int) -> Any:
    """One row's value: a number where it is one."""
    if isinstance(column, Jagged):
        return nested.rows_of(column, index)
    if not isinstance(column, Tensor):
        return column[index]
    found = tensors.row(column, index)
    return found.reshape(-1)[0].item() if found.size == 1 and found.ndim == len(column.shape[1:]) < 2 and (
        not column.shape[1:] or column.shape[1] == 1
    ) else found  # fmt: skip


class _Reader:
    """Finds the columns that a meta.json names, folders inside included."""

    def __init__(self, source: Source, parts: beside.Beside, notes: Notes, stack: ExitStack) -> None:
        self._source, self._parts, self._notes, self._stack = source, parts, notes, stack

    def columns(self, meta: dict[str, Any], folder: str, depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, entry in meta.items():
            if name in OURS or not isinstance(entry, dict):
                continue
            if "dtype" in entry:
                column = self._tensor(name, entry, folder)
                if column is not None:
                    found[name] = column
            elif depth:
                for inner, value in self._inside(name, folder, depth).items():
                    found.setdefault(inner, value)
        return found

    def _inside(self, name: str, folder: str, depth: int) -> dict[str, Any]:
        """The columns of a folder inside; texts under the folder's own name."""
        place = f"{folder}/{name}" if folder else name
        path = self._parts.find(f"{place}/{NAME}")
        if path is None or path.stat().st_size > MAX_META:
            self._missing(name, f"{name}/{NAME} is not in the upload")
            return {}
        meta = _json(path.read_bytes())
        data = meta.get("data")
        return {name: data} if isinstance(data, list) else self.columns(meta, place, depth - 1)

    def _tensor(self, name: str, entry: dict[str, Any], folder: str) -> Tensor | Jagged | None:
        kind = str(entry.get("dtype")).removeprefix("torch.")
        place = f"{folder}/{name}" if folder else name
        path = self._parts.find(place + ENDING)
        if path is None:
            self._missing(name, f"{name}{ENDING} is not in the upload")
            return None
        try:
            data = self._mapped(path)
            if entry.get("is_nested"):
                return self._jagged(data, kind, place)
            shape = tensors.whole_numbers(entry.get("shape"))
            return tensors.tensor(Storage(data, kind), 0, shape, nested.contiguous(shape), kind)
        except Refused as error:
            self._missing(name, str(error))
            return None

    def _jagged(self, data: memoryview, kind: str, place: str) -> Jagged | None:
        """Rows end to end; their lengths are in a file of their own."""
        path = self._parts.find(f"{place}.shape{ENDING}")
        if path is None:
            raise Refused("the lengths of its rows are not in the upload")
        lengths = np.frombuffer(path.read_bytes(), np.dtype("<i8"))
        if lengths.size and int(lengths.min()) < 0:
            raise Refused("the lengths of its rows are negative")
        count = int(lengths.sum())
        values = tensors.tensor(Storage(data, kind), 0, (count,), (1,), kind)
        return Jagged(values, np.cumsum(lengths) - lengths, lengths)

    def _mapped(self, path: Path) -> memoryview:
        if not path.stat().st_size:
            return memoryview(b"")
        file = self._stack.enter_context(path.open("rb"))
        return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))

    def _missing(self, name: str, why: str) -> None:
        self._notes.warn(None, name, "missing_files", f"{name}: {why}; left out. Upload the whole folder")


ABOUT = About(
    setting="`TensorDict.memmap(folder)` of your own, [B, T] with `response_lengths` or a mask",
    files="`meta.json` and `*.memmap` in one folder",
    recorded=("response_ids",),
    sometimes=named_rows.SOMETIMES,
    derived={"step": "folder name", "split": "folder name", "group_id": "identical prompts"},
)  # fmt: skip
FORMAT = Format("tensordict-folder", "a memory-mapped TensorDict, folder", sniff, read, about=ABOUT)
PART = Format(
    "tensordict-part", "a part of a memory-mapped TensorDict", sniff_part, read_part, companion=True,
    of=("tensordict-folder",), kept=True,
)  # fmt: skip
