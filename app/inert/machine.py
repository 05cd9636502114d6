"""The machine that goes through a pickle: its stack, its memo, and runs of numbers read at once."""

import re
import struct
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from app.inert.values import Global, Items, Refused

#: Runs of numbers inside a list: whole ones, floats, true and false.
INTS = re.compile(rb"(?:K.|M..|J....)++", re.DOTALL)
FLOATS = re.compile(rb"(?:G.{8})++", re.DOTALL)
BOOLS = re.compile(rb"[\x88\x89]++")
_INT = re.compile(rb"K(.)|M(..)|J(....)", re.DOTALL)
APPENDS = 0x65


class Maker(Protocol):
    """What the names of the pickle stand for."""

    def named(self, module: str, name: str) -> Global: ...

    def call(self, what: Any, args: tuple[Any, ...]) -> Any: ...

    def set_state(self, what: Any, state: Any) -> Any: ...

    def persistent(self, key: Any) -> Any: ...


class Machine:
    def __init__(self, data: memoryview, maker: Maker) -> None:
        self.data, self.maker, self.at = data, maker, 0
        self.stack: list[Any] = []
        self.marks: list[int] = []
        self.memo: dict[int, Any] = {}
        self.replaced = 0  # texts with bytes that are not UTF-8

    def run(self, steps: Mapping[int, Callable[["Machine"], None]]) -> Any:
        """The value of the pickle; `steps` is what each opcode does. Raises Refused."""
        data, end = self.data, len(self.data)
        try:
            while self.at < end:
                opcode = data[self.at]
                self.at += 1
                if opcode == 0x2E:
                    return self.pop()
                if opcode == 0x28 and self._numbers():
                    continue
                step = steps.get(opcode)
                if step is None:
                    raise Refused(f"its opcode {opcode:#04x} is not known", "pickle_damaged")
                step(self)
        except (IndexError, KeyError, TypeError, ValueError, struct.error, OverflowError) as error:
            reason = f"{type(error).__name__} at byte {self.at:,}"
            raise Refused(
                f"the pickle is damaged ({reason}): copy the file again", "pickle_damaged"
            ) from None
        raise Refused("the pickle ends early: the copy is incomplete", "pickle_damaged")

    def _numbers(self) -> bool:
        """Read a run of numbers that is appended to a list at once, all numbers together."""
        for pattern, decode in ((INTS, _ints), (FLOATS, _floats), (BOOLS, _bools)):
            found = pattern.match(self.data, self.at)
            if found is None:
                continue
            end = found.end()
            target = self.stack[-1] if self.stack else None
            if end >= len(self.data) or self.data[end] != APPENDS or not isinstance(target, Items):
                return False
            target.put_numbers(decode(self.data[self.at : end]))
            self.at = end + 1
            return True
        return False

    def take(self, count: int) -> memoryview:
        if count < 0 or count > len(self.data) - self.at:
            raise Refused("the pickle ends early: the copy is incomplete", "pickle_damaged")
        self.at += count
        return self.data[self.at - count : self.at]

    def take_int(self, size: int, signed: bool = False) -> int:
        return int.from_bytes(self.take(size), "little", signed=signed)

    def line(self) -> str:
        """Text up to the end of the line (protocol 0)."""
        return self.raw_line().decode("utf-8", "replace")

    def raw_line(self) -> bytes:
        start = self.at
        found = re.compile(rb"\n").search(self.data, start)
        if found is None:
            raise Refused("the pickle ends early: the copy is incomplete", "pickle_damaged")
        self.at = found.end()
        return bytes(self.data[start : found.start()])

    def text(self, count: int) -> str:
        raw = bytes(self.take(count))
        try:
            return raw.decode()
        except UnicodeDecodeError:
            self.replaced += 1
            return raw.decode("utf-8", "replace")

    def push(self, value: Any) -> None:
        self.stack.append(value)

    def pop(self) -> Any:
        if self.marks and len(self.stack) <= self.marks[-1]:
            raise Refused("the pickle is damaged (its stack is empty)", "pickle_damaged")
        return self.stack.pop()

    def pop_mark(self) -> list[Any]:
        mark = self.marks.pop()
        items = self.stack[mark:]
        del self.stack[mark:]
        return items

    def pop_tuple(self, count: int) -> None:
        start = len(self.stack) - count
        if start < (self.marks[-1] if self.marks else 0):
            raise Refused("the pickle is damaged (its stack is empty)", "pickle_damaged")
        items = tuple(self.stack[start:])
        del self.stack[start:]
        self.stack.append(items)


def _ints(run: memoryview) -> NDArray[np.int64]:
    raw = np.frombuffer(run, np.uint8)
    for first, width in ((0x4B, 2), (0x4D, 3), (0x4A, 5)):
        if raw.shape[0] % width == 0 and bool((raw[::width] == first).all()):
            body = raw.reshape(-1, width)[:, 1:].copy()
            kind = {2: "|u1", 3: "<u2", 5: "<i4"}[width]
            return body.view(np.dtype(kind)).ravel().astype(np.int64)
    values = [a[0] if a else int.from_bytes(b or c, "little", signed=not b) for a, b, c in _INT.findall(run)]
    return np.array(values, np.int64)


def _floats(run: memoryview) -> NDArray[np.float64]:
    body = np.frombuffer(run, np.uint8).reshape(-1, 9)[:, 1:].copy()
    return body.view(np.dtype(">f8")).ravel().astype(np.float64)


def _bools(run: memoryview) -> NDArray[np.bool_]:
    return np.asarray(np.frombuffer(run, np.uint8) == 0x88)
