"""Rows of pickles and PyTorch files: read in a process of their own (app/inert), which hands over numbers and
texts.

That process has limits on memory and time, no secrets in its environment and one file to read. Nothing the
file names is imported or called, there or here.
"""

import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from app.ingest.pickles import culprit
from app.ingest.record import Problem, Source, Unreadable
from app.settings import Settings

ROOT = Path(__file__).resolve().parent.parent.parent
#: Memory for a file beside the file itself: so much anyway, and so many times its size.
LEAST_MEMORY = 192 << 20
TIMES_SIZE = 10
#: A message that claims more is not one of ours.
MAX_MESSAGE = 4 << 30
CONVERTER = (
    "On the machine that wrote it, save plain data instead: `torch.save({name: tensor for name, tensor in "
    "batch.items()}, path)` of a dict of tensors, safetensors.torch.save_file, or one JSON object a line"
)


class Rows:
    """The rows of one file. `head` is what is said of all of them; iterating gives each row's fields."""

    def __init__(self, head: dict[str, Any], messages: Iterator[dict[str, Any]]) -> None:
        self.head, self._messages = head, messages

    @property
    def layout(self) -> str:
        return str(self.head.get("layout"))

    @property
    def others(self) -> dict[str, Any]:
        others = self.head.get("others")
        return others if isinstance(others, dict) else {}

    def __iter__(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """Each row's number from 1, its values and arrays by name. Raises Unreadable where it breaks off."""
        yield from enumerate(self._messages, 1)


@contextmanager
def opened(source: Source, settings: Settings) -> Iterator[Rows]:
    """The file's rows. Raises Unreadable with the sentence for its owner."""
    if source.path is None:
        raise Unreadable("this file cannot be read from where it lies.", "pickle")
    size = source.path.stat().st_size
    memory = min(settings.pickle_memory_bytes, LEAST_MEMORY + TIMES_SIZE * size)
    command = [
        sys.executable, "-P", "-m", "app.inert", str(source.path), str(memory),
        str(max(1, int(settings.pickle_seconds))),
    ]  # fmt: skip
    environment = {"PYTHONPATH": str(ROOT), "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    child = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment
    )
    try:
        messages = _messages(child, settings)
        head = next(messages, None)
        if head is None:
            raise Unreadable("its reader stopped before it gave a row.", "pickle_damaged")
        yield Rows(head, _rows(messages, int(head.get("rows") or 0), source, size))
    finally:
        child.kill()
        child.communicate()


def _rows(
    messages: Iterator[dict[str, Any]], total: int, source: Source, size: int
) -> Iterator[dict[str, Any]]:
    for number, message in enumerate(messages, 1):
        yield message
        source.report(size * number // max(1, total))


def _messages(child: "subprocess.Popen[bytes]", settings: Settings) -> Iterator[dict[str, Any]]:
    pipe = _Pipe(child, settings.pickle_seconds)
    while True:
        sizes = pipe.read(16)
        head, body = int.from_bytes(sizes[:8], "little"), int.from_bytes(sizes[8:], "little")
        if head + body > MAX_MESSAGE:
            raise Unreadable("its reader gave more than can be taken.", "too_large")
        message = json.loads(pipe.read(head))
        if "refused" in message:
            raise Unreadable(refusal(message), str(message.get("code") or "pickle"))
        if "end" in message:
            return
        if "arrays" not in message:
            yield message
            continue
        yield message["values"] | _arrays(message["arrays"], pipe.read(body))


def _arrays(shapes: list[Any], body: bytes) -> dict[str, Any]:
    found, at = {}, 0
    for name, kind, shape in shapes:
        dtype = np.dtype(kind)
        count = int(np.prod(shape, dtype=np.int64))
        found[name] = np.frombuffer(body, dtype, count, at).reshape(shape)
        at += count * dtype.itemsize
    return found


class _Pipe:
    """What the child writes. Time spent waiting for it counts; time spent on its rows does not."""

    def __init__(self, child: "subprocess.Popen[bytes]", seconds: float) -> None:
        if child.stdout is None:
            raise Unreadable("its reader could not be started.", "pickle")
        self._child, self._pipe, self._left = child, child.stdout.fileno(), seconds
        self._pending = bytearray()

    def read(self, count: int) -> bytes:
        while len(self._pending) < count:
            block = self._block()
            if not block:
                raise Unreadable(self._why(), "too_large")
            self._pending += block
        found = bytes(self._pending[:count])
        del self._pending[:count]
        return found

    def _block(self) -> bytes:
        began = time.monotonic()
        ready, _, _ = select.select([self._pipe], [], [], max(0.0, self._left))
        self._left -= time.monotonic() - began
        if not ready:
            self._child.kill()
            raise Unreadable(
                "reading it takes longer than a file of its kind may (VANTAGE_PICKLE_SECONDS); send it in "
                "parts.", "too_slow",
            )  # fmt: skip
        return os.read(self._pipe, 1 << 20)

    def _why(self) -> str:
        status = self._child.wait()
        if status < 0:
            return (
                "its reader was stopped: it needs more time or memory than a file of its size may "
                "(VANTAGE_PICKLE_SECONDS, VANTAGE_PICKLE_MEMORY_BYTES)."
            )
        return "its reader stopped before the end of the file: it is damaged, or too large for its memory."


def refusal(message: dict[str, Any]) -> str:
    """The sentence for what the child refused."""
    said, code = str(message["refused"]), message.get("code")
    if code == "not_listed":
        found = culprit([said])
        if found is not None and found[1]:
            return f"this file wants to call {said}; refused, nothing of it was run."
        return f"this file holds a Python object of {said}, which cannot be opened safely. {CONVERTER}."
    rows = int(message.get("rows") or 0)
    after = f"after row {rows}: " if rows else ""
    return f"{after}{said}."


def expect(rows: Rows, layouts: tuple[str, ...]) -> None:
    """Raises Unreadable where the file is laid out in another way than its beginning promised."""
    if rows.layout not in layouts:
        raise Unreadable("it begins like a file of this kind, but holds other values.", "pickle_damaged")


def said(rows: Rows) -> Iterator[Problem]:
    """What there is to say of the file before its rows."""
    left_out = rows.head.get("left_out")
    for name, why in left_out.items() if isinstance(left_out, dict) else ():
        message = f"{name} {why}; left out, never padded, cut or shifted"
        yield Problem(message, "length_mismatch", "warning", None, name)
    if replaced := rows.head.get("replaced"):
        message = f"{replaced} texts of the file are not UTF-8; shown with \ufffd"
        yield Problem(message, "not_utf8", "warning")
