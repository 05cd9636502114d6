"""Quantiles, histograms and running moments beside numpy's: lines for estimators_beside_peers.py."""

from typing import Any

import numpy as np
from estimator_inputs import Row, copy_of
from estimator_table import row
from timing import race

from estimators.aggregates import (
    RadixHistogram,
    group_quantiles,
    quantiles,
    running_moments,
    uniform_histogram,
)

COUNT = 1 << 23
GROUPS = 1024
BINS = 256
AT = (0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99)
#: A stream of so many numbers, in parts: its variance is known from long doubles.
PARTS, LEAST_PER_SECOND, VARIANCE_ERROR = 64, 500e6, 1e-8
#: What misses come from, where they occur.
PASSES = (
    "numpy makes one pass over a tile for each step, eleven with the counting, which alone is a third; the "
    "passes wait for a cache that other work shares, and a compiled loop would make one"
)
DOUBLE = "four passes over a tile in double precision, in a cache that other work on the machine shares"


def aggregate_rows(rounds: int) -> list[Row]:
    """Nanoseconds a number, of single-precision ones."""
    values = np.random.default_rng(7).normal(size=COUNT).astype(np.float32)
    edges = np.linspace(-5.0, 5.0, BINS + 1)
    offsets = np.linspace(0, COUNT, GROUPS + 1).astype(np.int64)
    table = values.reshape(GROUPS, -1)
    work: dict[str, tuple[Any, Any, float, str]] = {
        "7 quantiles, exact, of two parts that merge": (
            lambda: quantiles([values[: COUNT // 2], values[COUNT // 2 :]], AT),
            lambda: np.quantile(values, AT),
            12,
            PASSES,
        ),
        "radix histogram, 65,536 buckets": (
            lambda: RadixHistogram.of(values),
            lambda: np.histogram(values, BINS, (-5.0, 5.0)),
            5,
            PASSES,
        ),
        f"uniform histogram, {BINS} bins": (
            lambda: uniform_histogram(values, edges),
            lambda: np.histogram(values, BINS, (-5.0, 5.0)),
            3,
            PASSES,
        ),
        f"7 quantiles of each of {GROUPS} groups": (
            lambda: group_quantiles(values, offsets, AT),
            lambda: np.quantile(table, AT, axis=1),
            10,
            "sorting is all of it",
        ),
        "running moments over a stream, warm": (
            lambda: running_moments(np.split(values, PARTS)),
            lambda: values.var(dtype=np.float64),
            1e9 / LEAST_PER_SECOND,
            DOUBLE,
        ),
    }
    found = []
    for what, (ours, numpys, most, why) in work.items():
        result = race({"ours": ours, "peer": numpys, "floor": copy_of(4 * COUNT)}, min(rounds, 5))
        line = row(what, f"{COUNT:,}", result, COUNT, "numpy", None, 0, why)
        found.append(line | {"floors": None, "floors_at_most": None, "ns_at_most": most})
    return found


def moments_error() -> Row:
    """Of the variance of a stream with a large common offset, relative."""
    random = np.random.default_rng(8)
    parts = [(random.normal(size=1 << 18) + 100).astype(np.float32) for _ in range(PARTS)]
    every = np.concatenate(parts).astype(np.longdouble)
    exact = float(np.square(every - every.mean()).sum() / (every.size - 1))
    error = abs(running_moments(parts).variance() / exact - 1)
    return {"what": "variance of a stream, relative", "size": f"{every.size:,}", "error": error,
            "at_most": VARIANCE_ERROR, "why": ""}  # fmt: skip
