"""PyTorch tensors as numpy views on the bytes of the file, within limits on what may come out of them."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.inert.values import Refused, Storage, Tensor

#: PyTorch's name -> (bytes of an item, numpy's type of the bytes). bfloat16 is widened when it is read.
DTYPES: dict[str, tuple[int, str]] = {
    "float64": (8, "<f8"), "double": (8, "<f8"), "float32": (4, "<f4"), "float": (4, "<f4"),
    "float16": (2, "<f2"), "half": (2, "<f2"), "bfloat16": (2, "<u2"), "int64": (8, "<i8"),
    "long": (8, "<i8"), "int32": (4, "<i4"), "int": (4, "<i4"), "int16": (2, "<i2"), "short": (2, "<i2"),
    "int8": (1, "|i1"), "uint8": (1, "|u1"), "uint16": (2, "<u2"), "uint32": (4, "<u4"),
    "bool": (1, "|u1"),
}  # fmt: skip
STORAGES = {
    "DoubleStorage": "float64", "FloatStorage": "float32", "HalfStorage": "float16",
    "BFloat16Storage": "bfloat16", "LongStorage": "int64", "IntStorage": "int32", "ShortStorage": "int16",
    "CharStorage": "int8", "ByteStorage": "uint8", "BoolStorage": "bool", "UntypedStorage": "uint8",
}  # fmt: skip
#: A view that shows its bytes several times over (stride 0) may show this many at most.
MAX_REPEATED = 256 << 20
MAX_DIMENSIONS = 8


def tensor(storage: Any, offset: Any, shape: Any, strides: Any, dtype: str | None = None) -> Tensor:
    """A view on a storage. Raises Refused where it goes past its end or shows far more than it holds."""
    if not isinstance(storage, Storage):
        raise Refused("a tensor of it has no storage", "pickle_damaged")
    kind = dtype or storage.dtype
    shape, strides = whole_numbers(shape), whole_numbers(strides)
    whole = isinstance(offset, int) and offset >= 0 and len(shape) == len(strides) <= MAX_DIMENSIONS
    if kind not in DTYPES or not whole:
        raise Refused(f"a tensor of it has no valid layout ({kind}, {list(shape)})", "pickle_damaged")
    size, held = DTYPES[kind][0], len(storage.data)
    count = math.prod(shape)
    last = offset + sum((n - 1) * step for n, step in zip(shape, strides, strict=True) if n)
    if count and (last + 1) * size > held:
        raise Refused(
            f"a tensor of it declares {(last + 1) * size:,} bytes, its storage holds {held:,}: "
            "the copy is incomplete", "pickle_damaged",
        )  # fmt: skip
    if count * size > max(held, MAX_REPEATED):
        raise Refused(
            f"a tensor of it shows {held:,} bytes as {count * size:,} (shape {list(shape)}): too much for "
            "what it holds", "too_large",
        )  # fmt: skip
    return Tensor(storage.data, kind, offset, shape, strides)


def whole_numbers(value: Any) -> tuple[int, ...]:
    """A shape. Raises Refused."""
    numbers = getattr(value, "chunks", None)
    items = value.numbers().tolist() if numbers else value
    if isinstance(items, (list, tuple)) and all(type(n) is int and 0 <= n < 2**62 for n in items):
        return tuple(items)
    raise Refused("a shape in it is not a list of whole numbers", "pickle_damaged")


def view(data: memoryview, kind: str, offset: int, shape: tuple[int, ...], strides: tuple[int, ...]) -> Any:
    """The numpy view, bfloat16 widened to float32."""
    size, text = DTYPES[kind]
    if not math.prod(shape):
        return np.zeros(shape, np.float32 if kind == "bfloat16" else np.dtype(text))
    usable = data[: len(data) // size * size]
    flat = np.frombuffer(usable, np.dtype(text))[offset:]
    steps = tuple(step * size for step in strides)
    shown = np.lib.stride_tricks.as_strided(flat, shape, steps, writeable=False)
    if kind == "bfloat16":
        return (shown.astype(np.uint32) << 16).view(np.float32)
    return shown != 0 if kind == "bool" else shown


def row(one: Tensor, index: int) -> NDArray[Any]:
    """Entry `index` of the first axis."""
    start = one.offset + index * one.strides[0]
    return np.asarray(view(one.data, one.dtype, start, one.shape[1:], one.strides[1:]))


def rows(one: Tensor, start: int, count: int) -> NDArray[Any]:
    """`count` entries of the first axis from `start` on."""
    begin = one.offset + start * one.strides[0]
    return np.asarray(view(one.data, one.dtype, begin, (count, *one.shape[1:]), one.strides))


def whole(one: Tensor) -> NDArray[Any]:
    return np.asarray(view(one.data, one.dtype, one.offset, one.shape, one.strides))
