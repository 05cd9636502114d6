"""Token arrays as bytes: everything comes back bit for bit."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

from storage.codec import (
    MISSING,
    QUICK,
    SMALL,
    Damaged,
    Encoded,
    Values,
    decode,
    decode_into,
    decode_slot,
    encode,
    is_missing,
)

# Every bit pattern of a double, with the ones that matter more often than chance would bring them.
PATTERNS = st.one_of(
    st.sampled_from(
        [
            float("nan"),
            float("inf"),
            float("-inf"),
            -0.0,
            0.0,
            5e-324,
            1e-40,
            1.0,
            0.1,
            1 / 3,
            1e308,
            float(MISSING),
        ]
    ).map(lambda number: int(np.array(number).view(np.uint64))),
    st.integers(0, 2**64 - 1),
    st.just(int(np.array(MISSING).view(np.uint64))),
)
SINGLE_PATTERNS = st.integers(0, 2**32 - 1)
IDS = st.one_of(st.integers(-1, 300_000), st.integers(-(2**63), 2**63 - 1))


def doubles() -> st.SearchStrategy[NDArray[Any]]:
    return hnp.arrays(np.uint64, st.integers(0, 12), elements=PATTERNS).map(
        lambda bits: bits.view(np.float64)
    )


def singles() -> st.SearchStrategy[NDArray[Any]]:
    bits = hnp.arrays(np.uint32, st.integers(0, 12), elements=SINGLE_PATTERNS)
    return bits.map(lambda array: array.view(np.float32))


def integers() -> st.SearchStrategy[NDArray[Any]]:
    return hnp.arrays(np.int64, st.integers(0, 12), elements=IDS)


def masks() -> st.SearchStrategy[NDArray[Any]]:
    return hnp.arrays(np.uint8, st.integers(0, 12), elements=st.integers(0, 255))


def parts(arrays: st.SearchStrategy[NDArray[Any]]) -> st.SearchStrategy[list[NDArray[Any] | None]]:
    return st.lists(st.one_of(st.none(), arrays), max_size=5)


def bits(array: NDArray[Any]) -> NDArray[Any]:
    """The values as doubles' or integers' bit patterns, whichever width they were stored in."""
    if array.dtype.kind != "f":
        return array.astype(np.int64)
    single = array.dtype.itemsize == 4
    return np.ascontiguousarray(array.astype(np.float64) if single else array).view(np.uint64)


def same(values: Values, again: Values) -> None:
    assert [value is None for value in values] == [value is None for value in again]
    for value, back in zip(values, again, strict=True):
        if value is not None and back is not None:
            np.testing.assert_array_equal(bits(value), bits(back))


@given(parts(doubles()), st.sampled_from([SMALL, QUICK]))
def test_doubles_survive_with_every_nan_payload(values: list[NDArray[Any] | None], level: int) -> None:
    encoded = encode(values, level)
    same(values, decode(encoded))
    for slot, value in enumerate(values):
        same([value], [decode_slot(encoded, slot)])


@given(parts(singles()), st.sampled_from([SMALL, QUICK]))
def test_singles_survive_with_every_nan_payload(values: list[NDArray[Any] | None], level: int) -> None:
    again = decode(encode(values, level))
    for value, back in zip(values, again, strict=True):
        assert (value is None) == (back is None)
        if value is not None and back is not None and value.size:
            np.testing.assert_array_equal(value.view(np.uint32), back.view(np.uint32))


@given(parts(integers()))
def test_integers_survive(values: list[NDArray[Any] | None]) -> None:
    same(values, decode(encode(values)))


@given(parts(masks()))
def test_masks_survive_in_one_byte_each(values: list[NDArray[Any] | None]) -> None:
    encoded = encode(values)
    assert encoded.dtype == "u1"
    same(values, decode(encoded))


@given(st.lists(st.one_of(st.none(), doubles(), singles()), max_size=5))
def test_doubles_and_singles_in_one_part(values: list[NDArray[Any] | None]) -> None:
    quiet = [None if v is None else np.where(np.isnan(v), v.dtype.type(0), v) for v in values]
    same(quiet, decode(encode(quiet)))


@pytest.mark.parametrize(
    ("array", "dtype"),
    [
        (np.array([0.5, -2.0, np.inf, float(MISSING)]), "f4"),
        (np.array([0.1]), "f8"),
        (np.array([1e300]), "f8"),
        (np.array([0.1], np.float32), "f4"),
        (np.array([1, 2**31 - 1]), "i4"),
        (np.array([1, 2**31]), "i8"),
        (np.array([-(2**31)]), "i4"),
        (np.array([3], np.uint16), "i4"),
        (np.array([True, False]), "u1"),
        (np.array([0.5], np.float16), "f4"),
        (np.array([]), "f4"),
        (np.r_[np.zeros(5000), 0.1], "f8"),  # only the last one does not fit
        (np.r_[np.zeros(5000), 0.5], "f4"),
    ],
)
def test_the_smallest_exact_type_is_stored(array: NDArray[Any], dtype: str) -> None:
    assert encode([array]).dtype == dtype


def test_an_empty_list_does_not_widen_the_ids_beside_it() -> None:
    encoded = encode([np.array([]), np.array([7, 8]), None])
    assert encoded.dtype == "i4"
    assert [None if v is None else v.tolist() for v in decode(encoded)] == [[], [7, 8], None]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_missing_is_told_from_other_nans(dtype: type[np.floating[Any]]) -> None:
    array = np.array([MISSING, np.nan, 1.0, MISSING]).astype(dtype)
    assert is_missing(array).tolist() == [True, False, False, True]
    assert is_missing(array[::3]).tolist() == [True, True]
    assert is_missing(np.array([1, 2])).tolist() == [False, False]
    (again,) = decode(encode([array]))
    assert again is not None and is_missing(again).tolist() == [True, False, False, True]


@pytest.mark.parametrize(
    "array",
    [
        np.array([[1.0]]),
        np.array([2**64 - 1], np.uint64),
        np.array([1j]),
        np.array(["a"]),
        np.array([1], np.longdouble),
    ],
)
def test_what_cannot_be_kept_exactly_is_refused(array: NDArray[Any]) -> None:
    with pytest.raises(ValueError, match=r"token array|does not fit"):
        encode([array])


def damaged(encoded: Encoded, **changes: Any) -> Encoded:
    kept = {name: getattr(encoded, name) for name in ("codec", "dtype", "lengths", "checksum", "data")}
    return Encoded(**{**kept, **changes})


def test_a_flipped_bit_anywhere_is_noticed() -> None:
    encoded = encode([np.arange(50.0), None, np.arange(3.0)])
    for name in ("data", "lengths"):
        raw = getattr(encoded, name)
        for position in range(len(raw)):
            changed = bytearray(raw)
            changed[position] ^= 1
            with pytest.raises(Damaged, match="checksum"):
                decode(damaged(encoded, **{name: bytes(changed)}))


def test_an_unknown_type_or_codec_is_noticed() -> None:
    encoded = encode([np.arange(5.0)])
    with pytest.raises(Damaged, match="unknown codec"):
        decode(damaged(encoded, dtype="f2"))
    with pytest.raises(Damaged, match="unknown codec"):
        decode(damaged(encoded, codec="gzip"))
    with pytest.raises(Damaged, match=r"bytes instead of|cannot be decompressed"):
        decode(damaged(encoded, dtype="f8"))


def test_a_slot_that_is_not_there_is_noticed() -> None:
    with pytest.raises(Damaged, match="2 slots"):
        decode_slot(encode([np.arange(5.0), None]), 2)


def test_decoding_into_a_wider_type_keeps_the_values() -> None:
    out = np.empty(3)
    decode_into(encode([np.array([0.5, MISSING, -0.0])]), out)
    np.testing.assert_array_equal(out.view(np.uint64), np.array([0.5, MISSING, -0.0]).view(np.uint64))
