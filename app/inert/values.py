"""The inert values that a pickle is read into."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray


class Refused(Exception):
    """Why the file is not read. The message is a sentence's end; `code` names the kind."""

    def __init__(self, message: str, code: str = "pickle") -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True, slots=True)
class Global:
    """A name of the allow list, never what it stands for."""

    name: str


@dataclass(slots=True, eq=False)
class Made:
    """What a class or function of the list would make: its name, its arguments, its state."""

    name: str
    args: tuple[Any, ...] = ()
    state: Any = None


class Items(list[Any]):
    """A list of the file. Numbers that come in long runs are kept as arrays in `chunks`, not as items."""

    __slots__ = ("chunks",)

    def __init__(self, items: Sequence[Any] = ()) -> None:
        super().__init__(items)
        self.chunks: list[NDArray[Any]] = []

    def put_numbers(self, numbers: NDArray[Any]) -> None:
        if super().__len__():
            super().extend(numbers.tolist())
        else:
            self.chunks.append(numbers)

    def put(self, items: Sequence[Any]) -> None:
        self.spill()
        super().extend(items)

    def spill(self) -> None:
        """Turn the arrays into items."""
        if self.chunks:
            chunks, self.chunks = self.chunks, []
            for chunk in chunks:
                super().extend(chunk.tolist())

    def numbers(self) -> NDArray[Any] | None:
        """The list as one array, where it is nothing but a run of numbers."""
        if not self.chunks:
            return None
        if len(self.chunks) > 1:
            kinds = {chunk.dtype.kind for chunk in self.chunks}
            if len(kinds) > 1:
                return None
            self.chunks = [np.concatenate(self.chunks)]
        return self.chunks[0]

    def size(self) -> int:
        return len(self) + sum(len(chunk) for chunk in self.chunks)


@dataclass(slots=True, eq=False)
class Array:
    """A numpy array under construction: its data stays where it lies in the file. `items`: of an object
    array.
    """

    values: NDArray[Any] | None = None
    items: list[Any] | None = None
    shape: tuple[int, ...] = ()


@dataclass(slots=True, eq=False)
class Dtype:
    """A numpy dtype by its text ("<f4"); "|O" for objects."""

    text: str


@dataclass(frozen=True, slots=True, eq=False)
class Storage:
    """The bytes of a PyTorch storage and what they are ("float32"; "uint8" for untyped ones)."""

    data: memoryview
    dtype: str


@dataclass(frozen=True, slots=True, eq=False)
class Tensor:
    """A view on a storage, checked against its size. Strides count items."""

    data: memoryview
    dtype: str
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Jagged:
    """A nested tensor: row i is values[offsets[i]:offsets[i] + lengths[i]]."""

    values: Tensor
    offsets: NDArray[np.int64]
    lengths: NDArray[np.int64]


@dataclass(slots=True, eq=False)
class Table:
    """Columns over the same rows, and what is said of all of them."""

    columns: dict[str, Any] = field(default_factory=dict)
    size: int = 0
