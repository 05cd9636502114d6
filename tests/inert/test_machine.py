"""The machine builds what pickle would, as plain values, in every protocol; and calls nothing."""

import collections
import datetime
import io
import os
import pickle
import random
import time
import uuid
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from app.inert.files import value
from app.inert.layouts import layout
from app.inert.plain import Budget, array_of, plain
from app.inert.values import Refused

PROTOCOLS = range(pickle.HIGHEST_PROTOCOL + 1)


def read(data: bytes) -> Any:
    return plain(value(memoryview(data))[0], Budget())


def saved(thing: Any) -> bytes:
    buffer = io.BytesIO()
    torch.save(thing, buffer)
    return buffer.getvalue()


def made_up(source: random.Random, depth: int = 0) -> Any:
    """A value of the kinds that JSON has, of any size of number and any text."""
    kind = source.randrange(9 if depth < 4 else 6)
    if kind < 2:
        return source.choice((0, 1, 255, 256, 65535, 65536, -1, -300, 2**31 - 1, 2**40, -(2**70)))
    if kind == 2:
        return source.choice((0.0, -1.5, 1e300, 5e-324, float("inf")))
    if kind == 3:
        return source.choice((None, True, False))
    if kind == 4:
        return source.choice(("", "a", "é\u2028\x00", "x" * 300, "𝄞", "line\nline"))
    if kind == 5:
        return [source.choice((1, 2, 70_000, 300)) for _ in range(source.randrange(2500))]
    if kind == 6:
        return [made_up(source, depth + 1) for _ in range(source.randrange(5))]
    if kind == 7:
        return [source.random() for _ in range(source.randrange(2500))]
    return {source.choice("abcdef"): made_up(source, depth + 1) for _ in range(source.randrange(5))}


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_plain_values_come_out_as_they_were(protocol: int) -> None:
    source = random.Random(protocol)
    for _ in range(60):
        thing = made_up(source)
        assert read(pickle.dumps(thing, protocol)) == thing


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_numpy_arrays_and_scalars(protocol: int) -> None:
    arrays: list[Any] = [
        np.arange(12, dtype=np.int64).reshape(3, 4), np.linspace(0, 1, 5, dtype=np.float32),
        np.array([True, False]), np.zeros((0, 3)), np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.array([1.5, -2], np.float16), np.arange(3, dtype=">i4"), np.array(["a", "bcd"]),
        np.array([{"a": 1}, None], object),
    ]  # fmt: skip
    for array in arrays:
        assert read(pickle.dumps([array], protocol)) == [array.tolist()]
    for scalar in (np.float32(1.5), np.int64(-3), np.bool_(True), np.float64("inf"), np.str_("é")):
        assert read(pickle.dumps({"a": scalar}, protocol)) == {"a": scalar.item()}


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_usual_objects_become_plain(protocol: int) -> None:
    tag = uuid.UUID(int=2**100 + 7)
    things = {
        "ordered": collections.OrderedDict(a=1), "default": collections.defaultdict(list, {"b": [2]}),
        "set": {3}, "tuple": (1, (2,)), "bytes": b"text", "path": Path("/a/b"), "id": tag,
    }  # fmt: skip
    found = read(pickle.dumps(things, protocol))
    assert found["ordered"] == {"a": 1} and found["default"] == {"b": [2]} and found["set"] == [3]
    assert found["tuple"] == [1, [2]] and found["bytes"] == "text" and found["id"] == str(tag)
    assert found["path"].endswith("a/b")
    day = datetime.datetime(2026, 8, 12, 9, 30, 5)
    assert read(pickle.dumps(day, max(protocol, 3))) == "2026-08-12T09:30:05"


def test_tensors_are_those_of_torch() -> None:
    base = torch.arange(24, dtype=torch.float32).reshape(4, 6)
    tensors = {
        "plain": base, "view": base[1:3, 2:5], "turned": base.T, "step": base[:, ::2],
        "bfloat16": base.to(torch.bfloat16) / 3, "half": base.half(), "bool": base > 5,
        "long": base.long(), "empty": base[:0], "same": torch.ones(1).expand(5),
        "parameter": torch.nn.Parameter(base),
    }  # fmt: skip
    found = value(memoryview(saved(tensors)))[0]
    for name, tensor in tensors.items():
        array = array_of(found[name])
        assert array is not None and array.tolist() == tensor.detach().float().tolist(), name


class Call:
    def __init__(self, function: Any, *arguments: Any) -> None:
        self.function, self.arguments = function, arguments

    def __reduce__(self) -> tuple[Any, Any]:
        return self.function, self.arguments


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_what_is_not_listed_is_named_and_not_called(protocol: int, tmp_path: Path) -> None:
    target = tmp_path / "was_run"
    for call in (Call(os.system, f"touch {target}"), Call(eval, f"open({str(target)!r}, 'w')")):
        with pytest.raises(Refused) as refusal:
            read(pickle.dumps({"response": ["a"], "x": call}, protocol))
        assert str(refusal.value).rpartition(".")[2] in ("system", "eval")
    assert not target.exists()


@pytest.mark.parametrize(
    "data",
    [
        b"\x80\x02cnumpy\nndarray\n)R.",  # a value is called
        b"\x80\x02cbuiltins\ngetattr\n.",
        b"\x80\x02ccollections\nOrderedDict\n}U\x01aK\x01sb.",  # a state for a name
        b"\x80\x02]K\x01b.",
        b"\x80\x04\x95\xff\xff\xff\xff\xff\xff\xff\xff.",
        b"\x80\x04\x8e\xff\xff\xff\xff\xff\xff\xff\x7f.",
        b"\x80\x02j\xff\xff\xff\x7f.",  # a memo that was never put
        b"\x80\x02\x8b\xff\xff\xff\x7f.",
        b"\x80\x02(((((.",
        b"\x80\x02}]K\x01s.",  # a list as a key
        b"\x80\x05\x97.",
        b"\x80\x02\x82\x01.",
        b"Pid\n.",
        b"",
        b"\x80\x02",
    ],
)
def test_nonsense_is_refused(data: bytes) -> None:
    with pytest.raises(Refused):
        value(memoryview(data))


def test_a_memo_is_no_array() -> None:
    assert value(memoryview(b"\x80\x02K\x01r\xff\xff\xff\xff."))[0] == 1


def stretched(shape: tuple[int, ...], strides: tuple[int, ...]) -> bytes:
    return saved({"response_ids": torch.ones(1).as_strided(shape, strides)})


def test_a_tensor_that_repeats_its_bytes_is_limited() -> None:
    assert read(stretched((4,), (0,)))["response_ids"] == [read(stretched((1,), (0,)))["response_ids"][0]] * 4
    with pytest.raises(Refused, match="shows 4 bytes as"):
        value(memoryview(stretched((10**6, 10**6), (0, 0))))


def test_values_that_multiply_when_written_out_are_limited() -> None:
    thing: Any = ["x"] * 10
    for _ in range(12):
        thing = [thing] * 10
    found = value(memoryview(pickle.dumps(thing)))[0]
    with pytest.raises(Refused, match="too large when it is written out"):
        plain(found, Budget(values=10_000))
    around: list[Any] = []
    around.append(around)
    with pytest.raises(Refused, match="nested deeper"):
        read(pickle.dumps(around))


@pytest.mark.parametrize(
    "array", [np.zeros(2, [("a", "i4")]), np.zeros(2, "M8[s]"), np.zeros(2, "V8"), np.zeros(2, np.longdouble)]
)
def test_odd_types_of_arrays_are_refused(array: Any) -> None:
    with pytest.raises(Refused, match="type"):
        read(pickle.dumps(array))


def test_values_without_rows_are_refused() -> None:
    for thing in (1, "text", [], [1, 2], {"a": 1}, {}):
        with pytest.raises(Refused, match="neither rows"):
            layout(value(memoryview(pickle.dumps(thing)))[0])


SAME_HASH = [times * ((1 << 61) - 1) for times in range(20_000)]


@pytest.mark.parametrize("members", [dict, frozenset, set])
def test_members_that_all_have_one_hash_are_refused(members: Any) -> None:
    """Each would be compared with all before it: 60,000 of them took 97 s."""
    value(memoryview(with_members(members, list(range(20_000)))))
    began = time.process_time()
    with pytest.raises(Refused, match="too many keys"):
        value(memoryview(with_members(members, SAME_HASH)))
    assert time.process_time() - began < 1.0


def with_members(members: Any, keys: list[int]) -> bytes:
    """The pickle of such a dict or set, written without making it."""
    behind = b"N" if members is dict else b""
    items = b"".join(number(key) + behind for key in keys)
    shapes = {dict: (b"}(", b"u"), frozenset: (b"(", b"\x91"), set: (b"\x8f(", b"\x90")}
    begun, ended = shapes[members]
    return b"\x80\x04" + begun + items + ended + b"."


def number(key: int) -> bytes:
    raw = key.to_bytes(key.bit_length() // 8 + 1, "little", signed=True)
    return b"\x8a" + bytes([len(raw)]) + raw
