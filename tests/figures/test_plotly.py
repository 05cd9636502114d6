"""Typed arrays, labels, ranges."""

import base64
import struct

import numpy as np
import pytest

from app.figures.plotly import array, decode, escape, shorten, symmetric


def test_short_arrays_are_lists_and_gaps_are_null() -> None:
    assert array([1.0, float("nan"), float("inf")]) == [1.0, None, None]
    assert array(np.arange(3)) == [0, 1, 2] and array(np.array([[1, 2], [3, 4]])) == [[1, 2], [3, 4]]


def test_long_arrays_are_little_endian_bytes() -> None:
    made = array(np.arange(101, dtype=np.int64))
    assert (made["dtype"], made["shape"]) == ("i4", "101")
    assert struct.unpack("<3i", base64.b64decode(made["bdata"])[:12]) == (0, 1, 2)
    assert array(np.zeros((20, 30), dtype=np.float16))["dtype"] == "f4"
    assert array(np.zeros((20, 30)))["shape"] == "20, 30"
    assert (
        array(np.array([2**40] * 101))["dtype"] == "f8" and array(np.ones(101, dtype=bool))["dtype"] == "u1"
    )


@pytest.mark.parametrize("size", [0, 3, 100, 101, 5000])
def test_decode_gives_back_the_numbers(size: int) -> None:
    values = np.random.default_rng(0).normal(size=size)
    assert np.array_equal(decode(array(values)), values)


def test_labels() -> None:
    assert escape("<b>&") == "&lt;b&gt;&amp;"
    assert shorten("a\nb  c") == "a b c" and len(shorten("x" * 99)) == 24


def test_symmetric_range() -> None:
    assert symmetric([-2.0, 1.0, float("nan")], pad=1.0) == [-2.0, 2.0] and symmetric([]) == [-1.0, 1.0]
