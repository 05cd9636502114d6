"""numpy arrays, scalars and dtypes as pickles hold them: numbers and texts only, sizes checked."""

import math
import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.inert.tensors import whole_numbers
from app.inert.values import Array, Dtype, Items, Refused

_NUMBER = re.compile(r"[|<>=]?(?:b1|[iu][1248]|f[248]|c8|c16|\?|bool)")
_TEXT = re.compile(r"[|<>=]?[SU](\d{0,7})")
NAMES = {
    "int64": "<i8", "int32": "<i4", "int16": "<i2", "int8": "|i1", "uint8": "|u1", "uint16": "<u2",
    "uint32": "<u4", "uint64": "<u8", "float64": "<f8", "float32": "<f4", "float16": "<f2", "bool": "|b1",
    "bool_": "|b1", "bfloat16": "bfloat16", "torch.bfloat16": "bfloat16", "object_": "|O", "str_": "<U",
}  # fmt: skip


def checked_dtype(value: Any) -> str:
    """The text of a dtype of numbers, texts or objects. Raises Refused."""
    text = getattr(value, "text", None) or getattr(value, "name", None) or value
    if not isinstance(text, str):
        raise Refused("an array of it has a type that is no text", "pickle_damaged")
    text = text.removeprefix("numpy.").removeprefix("torch.")
    text = NAMES.get(text, text)
    if text in ("bfloat16", "|O", "O", "O8", "O4", "|O8"):
        return "|O" if "O" in text else text
    if _NUMBER.fullmatch(text) or _TEXT.fullmatch(text):
        return text
    raise Refused(f"an array of it is of type {text[:40]!r}, which is not read; save numbers or texts")


def set_dtype_state(dtype: Dtype, state: Any) -> None:
    """(version, byte order, subdtype, names, fields, itemsize, alignment, …)."""
    if not isinstance(state, tuple) or len(state) < 5:
        raise Refused("the pickle is damaged (state of a dtype)", "pickle_damaged")
    if any(part is not None for part in state[2:5]):
        raise Refused("an array of it has fields (a structured type), which is not read; save plain arrays")
    order = state[1]
    if order not in ("<", ">", "|", "="):
        raise Refused("the pickle is damaged (byte order)", "pickle_damaged")
    bare = dtype.text.lstrip("|<>=")
    if bare[:1] == "U" and len(state) > 5 and type(state[5]) is int and state[5] > 0:
        bare = f"U{state[5] // 4}"
    if bare[:1] == "S" and len(state) > 5 and type(state[5]) is int and state[5] > 0:
        bare = f"S{state[5]}"
    if dtype.text not in ("|O", "bfloat16"):
        dtype.text = checked_dtype(f"{order}{bare}")


def set_state(array: Array, state: Any) -> None:
    """(version, shape, dtype, column order, bytes or list)."""
    if not isinstance(state, tuple) or len(state) != 5 or not isinstance(state[2], Dtype):
        raise Refused("the pickle is damaged (state of an array)", "pickle_damaged")
    _, shape, dtype, fortran, data = state
    array.shape = whole_numbers(shape)
    if dtype.text == "|O":
        if not isinstance(data, Items) or data.size() != math.prod(array.shape):
            raise Refused("the pickle is damaged (an array of objects)", "pickle_damaged")
        data.spill()
        array.items = data
    else:
        array.values = from_bytes(data, dtype.text, array.shape, bool(fortran))


def from_bytes(data: Any, dtype: str, shape: tuple[int, ...], fortran: bool = False) -> NDArray[Any]:
    """A view on bytes of the file. Raises Refused where they are not as many as the shape says."""
    if isinstance(data, str):
        data = memoryview(data.encode("latin-1", "replace"))
    if not isinstance(data, memoryview) or dtype == "|O":
        raise Refused("the pickle is damaged (an array without bytes)", "pickle_damaged")
    size, wide = (2, "<u2") if dtype == "bfloat16" else (np.dtype(dtype).itemsize, dtype)
    expected_items = math.prod(shape)
    expected = expected_items * size
    if expected != len(data) or (not size and expected_items):
        raise Refused(
            f"an array of it declares {expected:,} bytes (shape {list(shape)}), {len(data):,} are there",
            "pickle_damaged",
        )
    flat = np.frombuffer(data, np.dtype(wide)) if expected else np.zeros(0, np.dtype(wide))
    if dtype == "bfloat16":
        flat = (flat.astype(np.uint32) << 16).view(np.float32)
    if dtype.lstrip("|<>=") in ("b1", "?", "bool"):
        flat = flat.view(np.uint8) != 0
    return flat.reshape(shape, order="F" if fortran else "C")


def scalar(args: tuple[Any, ...]) -> Any:
    """numpy.core.multiarray.scalar(dtype, bytes): the plain value."""
    if len(args) != 2 or not isinstance(args[0], Dtype):
        raise Refused("the pickle is damaged (a single number)", "pickle_damaged")
    if args[0].text == "|O":
        return args[1]
    return from_bytes(args[1], args[0].text, ())[()].item()


def from_buffer(args: tuple[Any, ...]) -> Any:
    """numpy.core.numeric._frombuffer(buffer, dtype, shape, order)."""
    if len(args) != 4 or not isinstance(args[1], Dtype):
        raise Refused("the pickle is damaged (an array)", "pickle_damaged")
    shape = whole_numbers(args[2])
    return Array(from_bytes(args[0], args[1].text, shape, args[3] == "F"), None, shape)
