"""Inert values as JSON and arrays, within limits: what leaves the process."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.inert import nested, tensors
from app.inert.values import Array, Dtype, Global, Items, Jagged, Made, Refused, Tensor

#: Of one row: how deep, how many values besides arrays, how many bytes of text.
DEEPEST = 64
MOST_VALUES = 2_000_000
MOST_TEXT = 256 << 20
#: Bytes that are no text are named by their number beyond this.
SHOWN_BYTES = 1 << 16


class Budget:
    """What one row may still become: values that many places share are written out for each of them."""

    def __init__(self, values: int = MOST_VALUES, text: int = MOST_TEXT) -> None:
        self.values, self.text = values, text

    def spend(self, values: int, text: int = 0) -> None:
        self.values -= values
        self.text -= text
        if self.values < 0 or self.text < 0:
            raise Refused(
                "a row of it becomes too large when it is written out: it refers to itself or repeats "
                "its parts too often", "too_large",
            )  # fmt: skip


def array_of(value: Any) -> NDArray[Any] | None:
    """The numbers of a tensor, a numpy array or a list that is all numbers; None for other values."""
    if isinstance(value, Tensor):
        return tensors.whole(value)
    if isinstance(value, Items):
        return value.numbers()
    if isinstance(value, Array):
        value = value.values
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf" and value.ndim:
        return value
    return None


def plain(value: Any, budget: Budget, depth: int = 0) -> Any:
    """The value for JSON. Raises Refused at a limit."""
    if depth > DEEPEST:
        raise Refused(f"it is nested deeper than {DEEPEST}", "too_deep")
    budget.spend(1)
    value = nested.unwrapped(value)
    if value is None or isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, str):
        budget.spend(0, len(value))
        return value
    if isinstance(value, Tensor):
        return _numbers(tensors.whole(value), budget)
    if isinstance(value, np.ndarray):
        return _numbers(value, budget)
    if isinstance(value, Jagged):
        budget.spend(int(value.lengths.sum()))
        return [nested.rows_of(value, index).tolist() for index in range(value.lengths.shape[0])]
    if isinstance(value, dict):
        return {_key(key): plain(item, budget, depth + 1) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return _list(value, budget, depth)
    return _other(value, budget, depth)


def _list(value: Any, budget: Budget, depth: int) -> list[Any]:
    if isinstance(value, Items):
        if (numbers := value.numbers()) is not None:
            return list(_numbers(numbers, budget))
        value.spill()
    return [plain(item, budget, depth + 1) for item in value]


def _numbers(array: NDArray[Any], budget: Budget) -> Any:
    budget.spend(array.size, array.nbytes if array.dtype.kind in "SU" else 0)
    if array.dtype.kind == "S":
        return [item.decode("utf-8", "replace") for item in array.ravel().tolist()]
    if array.dtype.kind == "c":
        return [str(item) for item in array.ravel().tolist()]
    return array.tolist()


def _key(key: Any) -> str:
    return key if isinstance(key, str) else "null" if key is None else str(key)


def _other(value: Any, budget: Budget, depth: int) -> Any:
    if isinstance(value, memoryview):
        raw = bytes(value[:SHOWN_BYTES])
        budget.spend(0, len(raw))
        try:
            return raw.decode() if len(value) <= SHOWN_BYTES else f"{len(value)} bytes"
        except UnicodeDecodeError:
            return f"{len(value)} bytes"
    if isinstance(value, (Global, Dtype)):
        return value.name.rpartition(".")[2] if isinstance(value, Global) else value.text
    if isinstance(value, Made):
        state = value.state
        if value.name == "uuid.UUID" and isinstance(state, dict) and isinstance(state.get("int"), int):
            text = f"{state['int'] % (1 << 128):032x}"
            return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))
        return plain(state if state is not None else list(value.args), budget, depth + 1)
    return str(type(value).__name__)


def split(row: dict[Any, Any]) -> tuple[dict[str, Any], list[tuple[str, NDArray[Any]]]]:
    """A row's values for JSON, and its arrays by name."""
    budget = Budget()
    values: dict[str, Any] = {}
    arrays: list[tuple[str, NDArray[Any]]] = []
    for key, value in row.items():
        name, value = _key(key), nested.unwrapped(value)
        array = array_of(value)
        if array is None:
            values[name] = plain(value, budget)
        elif array.ndim == 0:
            values[name] = array.item()
        else:
            arrays.append((name, array))
    return values, arrays


def length(value: Any) -> int | None:
    """How many entries a column has; None for what is no column."""
    value = nested.unwrapped(value)
    if isinstance(value, Tensor):
        return value.shape[0] if value.shape else None
    if isinstance(value, Jagged):
        return int(value.lengths.shape[0])
    if isinstance(value, np.ndarray):
        return int(value.shape[0]) if value.ndim else None
    if isinstance(value, Items):
        return value.size()
    return len(value) if isinstance(value, (list, tuple)) else None


def entry(value: Any, index: int) -> Any:
    """Entry `index` of a column."""
    if isinstance(value, Tensor):
        return tensors.row(value, index)
    if isinstance(value, Jagged):
        return nested.rows_of(value, index)
    if isinstance(value, np.ndarray):
        found = value[index]
        return found.item() if isinstance(found, np.generic) else found
    if isinstance(value, Items) and (numbers := value.numbers()) is not None:
        return numbers[index].item()
    sequence: Sequence[Any] = value
    return sequence[index]
