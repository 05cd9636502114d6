"""Nested tensors and TensorDicts, as PyTorch files hold them: to tensors, jagged columns and plain dicts."""

from typing import Any

import numpy as np

from app.inert import tensors
from app.inert.values import Array, Jagged, Made, Refused, Storage, Tensor

#: How tensordict names the parts of a nested tensor that it lays into one storage.
VALUES, LENGTHS, OFFSETS = "<NJT_VALUES>", "<NJT_LENGTHS>", "<NJT_OFFSETS>"


def rebuilt_v3(args: tuple[Any, ...]) -> Any:
    """(storage, offset, shape, strides, requires_grad, hooks, dtype, …): the dtype is given apart."""
    if len(args) < 7:
        raise Refused("a tensor of it has no valid layout", "pickle_damaged")
    kind = getattr(args[6], "name", "").removeprefix("torch.")
    return tensors.tensor(args[0], args[1], args[2], args[3], kind)


def jagged(args: tuple[Any, ...]) -> Jagged:
    """A jagged tensor from {values, offsets, lengths, …}."""
    state = args[0] if args else None
    if not isinstance(state, dict):
        raise Refused("a nested tensor of it cannot be read", "pickle_damaged")
    return made(state.get("values"), state.get("offsets"), state.get("lengths"))


def made(values: Any, offsets: Any, lengths: Any = None) -> Jagged:
    """Rows that lie end to end. Raises Refused where the offsets leave the values."""
    if not isinstance(values, Tensor) or not isinstance(offsets, Tensor) or len(offsets.shape) != 1:
        raise Refused("a nested tensor of it cannot be read", "pickle_damaged")
    at = tensors.whole(offsets).astype(np.int64)
    sizes = tensors.whole(lengths).astype(np.int64) if isinstance(lengths, Tensor) else np.diff(at)
    starts = at[: sizes.shape[0]]
    count = values.shape[0] if values.shape else 0
    if starts.shape != sizes.shape or bool(
        (starts < 0).any() or (sizes < 0).any() or (sizes > count).any() or (starts + sizes > count).any()
    ):
        raise Refused("the offsets of a nested tensor in it do not fit its values", "pickle_damaged")
    return Jagged(values, starts, sizes)


def strided(args: tuple[Any, ...]) -> Jagged:
    """(buffer, sizes [B, d], strides [B, d], offsets [B]) of the older kind of nested tensor."""
    if len(args) < 4 or not all(isinstance(part, Tensor) for part in args[:4]):
        raise Refused("a nested tensor of it cannot be read", "pickle_damaged")
    values, sizes, _, offsets = args[:4]
    shapes = tensors.whole(sizes)
    if shapes.ndim != 2 or shapes.shape[1] != 1:
        raise Refused("a nested tensor of it has more than one dimension in a row; pad it", "pickle")
    starts = tensors.whole(offsets).astype(np.int64)
    lengths = shapes[:, 0].astype(np.int64)
    end = values.shape[0]
    if starts.shape != lengths.shape or bool(
        (starts < 0).any() or (lengths < 0).any() or (lengths > end).any() or (starts + lengths > end).any()
    ):
        raise Refused("the offsets of a nested tensor in it do not fit its values", "pickle_damaged")
    return Jagged(values, starts, lengths)


def rows_of(one: Jagged, index: int) -> Any:
    return tensors.rows(one.values, int(one.offsets[index]), int(one.lengths[index]))


def consolidated(args: tuple[Any, ...]) -> Made:
    """A TensorDict that was laid into one storage: {leaves: {name: (dtype, shape, start, stop, pad)}}."""
    if len(args) != 2 or not isinstance(args[0], dict) or not isinstance(args[1], Tensor):
        raise Refused("its TensorDict cannot be read", "pickle_damaged")
    return Made("TensorDict", (), {"_tensordict": _level(args[0], args[1])})


def _level(meta: dict[Any, Any], storage: Tensor, depth: int = 16) -> dict[str, Any]:
    found: dict[str, Any] = {}
    parts: dict[str, dict[str, Tensor]] = {}
    leaves, plain = meta.get("leaves"), meta.get("non_tensors")
    for name, leaf in (leaves if isinstance(leaves, dict) else {}).items():
        tensor = _leaf(leaf, storage)
        mark = next((mark for mark in (VALUES, LENGTHS, OFFSETS) if str(name).startswith(mark)), None)
        if mark is None:
            found[str(name)] = tensor
        else:
            parts.setdefault(str(name).removeprefix(mark), {})[mark] = tensor
    for name, part in parts.items():
        found[name] = made(part.get(VALUES), part.get(OFFSETS), part.get(LENGTHS))
    for name, entry in (plain if isinstance(plain, dict) else {}).items():
        found[str(name)] = entry[0] if isinstance(entry, tuple) and entry else entry
    for name, inner in meta.items():
        if isinstance(inner, dict) and "leaves" in inner and depth:
            found[str(name)] = _inner(inner, storage, depth)
    return found


def _inner(meta: dict[Any, Any], storage: Tensor, depth: int) -> Any:
    """A TensorDict inside: a list of values where it is a stack of what is no tensor."""
    level = _level(meta, storage, depth - 1)
    if meta.get("cls") == "NonTensorStack" and all(name.isdigit() for name in level):
        return [level[name] for name in sorted(level, key=int)]
    return level["data"] if meta.get("cls") == "NonTensorData" and "data" in level else level


def _leaf(leaf: Any, storage: Tensor) -> Tensor:
    if not isinstance(leaf, tuple) or len(leaf) < 4 or type(leaf[2]) is not int or type(leaf[3]) is not int:
        raise Refused("its TensorDict cannot be read", "pickle_damaged")
    kind = str(leaf[0]).removeprefix("torch.")
    shape = tensors.whole_numbers(leaf[1])
    start, stop = leaf[2], leaf[3]
    if not 0 <= start <= stop <= len(storage.data):
        raise Refused("a part of its TensorDict lies outside of it: the copy is incomplete", "pickle_damaged")
    return tensors.tensor(Storage(storage.data[start:stop], kind), 0, shape, contiguous(shape), kind)


def contiguous(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides of rows that lie one behind the other."""
    steps, step = [], 1
    for size in reversed(shape):
        steps.append(step)
        step *= max(1, size)
    return tuple(reversed(steps))


def unwrapped(value: Any) -> Any:
    """What a TensorDict, a non-tensor of it or a numpy array stands for: a dict, a list, a value."""
    if isinstance(value, Array):
        return value.values if value.items is None else value.items
    if not isinstance(value, Made) or not isinstance(value.state, dict):
        return value
    state = value.state
    if value.name in ("NonTensorStack", "LinkedList") and isinstance(state.get("tensordicts"), list):
        return [unwrapped(item) for item in state["tensordicts"]]
    if value.name == "NonTensorData":
        inner = state.get("non_tensordict") or state.get("_non_tensordict")
        return inner.get("data") if isinstance(inner, dict) else None
    if value.name == "TensorDict":
        inner = state.get("_tensordict")
        if isinstance(inner, dict):
            return {str(name): unwrapped(item) for name, item in inner.items()}
    return value
