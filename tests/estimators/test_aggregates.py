"""Quantiles, histograms and moments against numpy's, which look at all numbers at once."""

from collections.abc import Callable
from math import inf, nan
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from estimators import aggregates
from estimators.aggregates import (
    RadixHistogram,
    Search,
    group_quantiles,
    quantiles,
    running_moments,
    uniform_histogram,
)
from estimators.moments import Moments

AT = (0.0, 0.01, 0.25, 0.5, 0.6, 0.99, 1.0)
Shape = Callable[[np.random.Generator, int], NDArray[np.float64]]
#: Ties, both zeros, subnormal and huge numbers, and entries that are none.
SHAPES: dict[str, Shape] = {
    "normal": lambda random, n: random.normal(size=n),
    "mostly zero": lambda random, n: np.where(random.random(n) < 0.7, -0.0, random.normal(size=n)),
    "two values": lambda random, n: random.integers(0, 2, n).astype(np.float64),
    "one value": lambda random, n: np.full(n, 0.1),
    "one bucket": lambda random, n: 1.0 + random.random(n) / 256,
    "wide": lambda random, n: random.normal(size=n) * 10.0 ** random.integers(-40, 37, n),
    "far": lambda random, n: 1e6 + random.normal(size=n),
    "holes": lambda random, n: random.choice([nan, inf, -inf, 0.5, -2.0, 3.0], n),
    "no numbers": lambda random, n: random.choice([nan, inf, -inf], n),
}
drawn = st.tuples(
    st.sampled_from(sorted(SHAPES)), st.sampled_from(["f4", "f8"]), st.integers(0, 3000), st.integers(0, 999)
)


def make(shape: str, dtype: str, size: int, seed: int) -> NDArray[Any]:
    with np.errstate(over="ignore"):
        return SHAPES[shape](np.random.default_rng(seed), size).astype(dtype)


def finite(values: NDArray[Any]) -> NDArray[np.float64]:
    kept: NDArray[np.float64] = values[np.isfinite(values)].astype(np.float64)
    return kept


@pytest.fixture(autouse=True)
def small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a few thousand numbers go through tiles and buckets as millions do."""
    for name, value in {"FEW": 8, "TILE": 512, "SUMMED": 256, "DOT": 64}.items():
        monkeypatch.setattr(aggregates, name, value)


def close(found: Any, expected: Any) -> None:
    np.testing.assert_allclose(found, expected, rtol=1e-15, atol=0, equal_nan=True)


@settings(max_examples=40)
@given(drawn, st.integers(0, 3000))
def test_quantiles_are_numpys_whatever_the_numbers_and_parts(
    given_: tuple[str, str, int, int], cut: int
) -> None:
    values = make(*given_)
    kept = finite(values)
    expected = np.quantile(kept, AT) if kept.size else np.full(len(AT), nan)
    close(quantiles([values], AT), expected)
    close(quantiles([values[:cut], values[cut:]], AT), expected)


@settings(max_examples=40)
@given(drawn, st.integers(0, 3000))
def test_histograms_of_parts_merge_into_that_of_all(given_: tuple[str, str, int, int], cut: int) -> None:
    values = make(*given_)
    whole = RadixHistogram.of(values)
    parts = RadixHistogram.of(values[:cut]).merge(RadixHistogram.of(values[cut:]))
    assert np.array_equal(whole.counts, parts.counts)
    kept = finite(values)
    assert whole.count == kept.size
    edges = np.append(whole.edges(), inf)
    # −0 has the bucket below that of 0; numbers of each bucket lie between its edges.
    below = np.cumsum(whole.counts)
    for bucket in np.flatnonzero(whole.counts):
        assert below[bucket] >= np.count_nonzero(kept < edges[bucket])
        assert below[bucket] <= np.count_nonzero(kept <= edges[bucket + 1])


@settings(max_examples=40)
@given(drawn)
def test_a_radix_histogram_alone_is_off_by_less_than_a_bucket(given_: tuple[str, str, int, int]) -> None:
    values = make(*given_)
    kept, found = finite(values), RadixHistogram.of(values).quantiles(AT)
    if not kept.size:
        assert all(np.isnan(found))
        return
    expected = np.quantile(kept, AT, method="nearest")
    width = 2.0**-7 if values.itemsize == 4 else 2.0**-4
    ranks = np.rint(np.array(AT) * (kept.size - 1)).astype(int)
    exact = np.sort(kept)[ranks]
    assert np.all(np.abs(np.array(found) - exact) <= np.maximum(width * np.abs(exact), 1e-38)), expected


def test_histograms_of_both_precisions_do_not_merge() -> None:
    one, other = RadixHistogram.of(np.ones(3, np.float32)), RadixHistogram.of(np.ones(3))
    with pytest.raises(ValueError, match="4 and 8 bytes"):
        one.merge(other)


def test_only_numbers_of_the_wanted_buckets_are_looked_at_again() -> None:
    values = np.random.default_rng(3).normal(size=20_000).astype(np.float32)
    whole = RadixHistogram.of(values)
    search = Search.of(whole, np.array([10_000]))
    left = search.survivors(values)
    assert 0 < left.size < 500
    assert np.sort(left)[search.places[0]] == np.sort(values)[10_000]


@settings(max_examples=40)
@given(drawn, st.lists(st.integers(0, 3000), max_size=6))
def test_group_quantiles_are_those_of_each_group(given_: tuple[str, str, int, int], cuts: list[int]) -> None:
    values = make(*given_)
    offsets = np.array(sorted([0, *(min(cut, values.size) for cut in cuts), values.size]), dtype=np.int64)
    found = group_quantiles(values, offsets, AT)
    for row, first, last in zip(found, offsets[:-1], offsets[1:], strict=True):
        kept = finite(values[first:last])
        close(row, np.quantile(kept, AT) if kept.size else np.full(len(AT), nan))


@settings(max_examples=40)
@given(drawn, st.integers(1, 300), st.booleans())
def test_uniform_histograms_are_numpys_also_on_the_edges(
    given_: tuple[str, str, int, int], bins: int, on_edges: bool
) -> None:
    values = make(*given_)
    kept = finite(values)
    low, high = (kept.min(), kept.max()) if kept.size else (0.0, 0.0)
    edges = np.linspace(low, high, bins + 1) if low < high else np.linspace(-1.0, 1.0, bins + 1)
    if on_edges:
        values[: edges.size] = np.tile(edges, 2)[: values.size][: edges.size]
    assert np.array_equal(uniform_histogram(values, edges), np.histogram(finite(values), edges)[0])
    narrow = np.linspace(edges[0] / 2, edges[-1] / 3, bins + 1)
    if narrow[0] < narrow[-1]:
        assert np.array_equal(uniform_histogram(values, narrow), np.histogram(finite(values), narrow)[0])


@settings(max_examples=40)
@given(drawn, st.integers(0, 3000))
def test_moments_run_over_parts_as_over_all(given_: tuple[str, str, int, int], cut: int) -> None:
    values = make(*given_)
    kept = finite(values)
    found = running_moments([values[cut:]], running_moments([values[:cut]]))
    assert found.count == kept.size
    if kept.size:
        size = float(np.abs(kept).max())
        assert abs(found.mean - kept.mean()) <= 1e-14 * size
        # The rounding of a mean of so many, and of squares.
        assert found.m2 == pytest.approx(kept.var() * kept.size, rel=1e-10, abs=1e-13 * kept.size * size)


def test_moments_follow_numbers_that_move_away() -> None:
    """The pivot of the first tile is a million off in the last."""
    random = np.random.default_rng(5)
    values = random.normal(size=40 * 256) + np.repeat(np.arange(40) * 1e5, 256)
    found = running_moments([values])
    assert found.variance() == pytest.approx(float(values.var(ddof=1)), rel=1e-12)
    last = running_moments([values[:256], values[-256:] * 1.0])
    both = np.concatenate([values[:256], values[-256:]])
    assert last.variance() == pytest.approx(float(both.var(ddof=1)), rel=1e-12)


def test_nothing_has_no_moments() -> None:
    assert running_moments([]) == Moments() == running_moments([np.full(3, nan)])
