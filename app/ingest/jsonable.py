"""Values of other kinds of tables as JSON knows them: what a row keeps has to be shown and stored."""

from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from storage.arrays import is_missing


def jsonable(value: Any) -> Any:
    """The value with arrays as lists, decimals as numbers where that is exact, times and the like as text.

    Bytes are text where they are UTF-8, else {"bytes": hexadecimal digits}.
    """
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, np.ndarray | np.generic):
        return jsonable(value.tolist())
    if isinstance(value, Mapping):
        return {str(key): jsonable(item) for key, item in value.items()}
    if isinstance(value, tuple):
        return tuple(jsonable(item) for item in value)
    if isinstance(value, Iterable) and not isinstance(value, bytes | bytearray):
        return [jsonable(item) for item in value]
    if isinstance(value, Decimal):
        return _decimal(value)
    return _bytes(bytes(value)) if isinstance(value, bytes | bytearray) else str(value)


def without_arrays(extra: dict[str, Any]) -> None:
    """Make lists of the arrays among these fields: a per-token name in a format that has no such field."""
    for name, value in extra.items():
        if isinstance(value, np.ndarray):
            gone = is_missing(value) if value.dtype.kind == "f" else np.zeros(value.shape, bool)
            extra[name] = [None if no else one for one, no in zip(value.tolist(), gone, strict=True)]


def _decimal(value: Decimal) -> int | float | str:
    if value.is_finite() and value == value.to_integral_value():
        return int(value)
    near = float(value)
    return near if Decimal(repr(near)) == value or not value.is_finite() else str(value)


def _bytes(value: bytes) -> str | dict[str, str]:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"bytes": value.hex()}


def is_jsonable(kind: pa.DataType) -> bool:
    """Whether Arrow gives values of this type as JSON has them."""
    if pa.types.is_nested(kind):
        return all(is_jsonable(kind.field(index).type) for index in range(kind.num_fields))
    plain = pa.types.is_null(kind) or pa.types.is_boolean(kind) or pa.types.is_integer(kind)
    text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    return bool(plain or text or pa.types.is_floating(kind))


def values_of(column: Any) -> list[Any]:
    """The values of an Arrow column, one per row. Times are spelled out by Arrow, to the last nanosecond."""
    if is_jsonable(column.type):
        return list(column.to_pylist())
    if pa.types.is_timestamp(column.type) or pa.types.is_time(column.type):
        column = column.cast(pa.string())
    return [jsonable(value) for value in column.to_pylist()]
