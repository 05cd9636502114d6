"""One number per rollout is drawn as if it had been written once per token."""

import numpy as np
import pytest

from app.figures.even import even_clip, even_quantile, thin_even
from app.figures.token_heatmap import clip_of, thin


@pytest.mark.parametrize(("columns", "rows"), [(1000, 500), (7, 500), (13, 3), (1, 1)])
@pytest.mark.parametrize("seed", range(4))
def test_the_grid_is_the_one_of_written_out_values(seed: int, columns: int, rows: int) -> None:
    random = np.random.default_rng(seed)
    lengths = random.integers(0, 40, 11)
    values = random.normal(size=11).astype(np.float32)
    values[2], values[5] = np.nan, -values[4]
    members = np.flatnonzero(random.random(11) < 0.9)
    written = np.repeat(values, lengths)
    expected = thin(written, lengths, np.ones(written.size, bool), members, columns, rows)
    grid, masked, width, height = thin_even(values, lengths, members, columns, rows)
    np.testing.assert_array_equal(grid, expected[0])
    np.testing.assert_array_equal(masked, expected[1])
    assert (width, height) == expected[2:]


@pytest.mark.parametrize("values", [[0.5, -0.7, 0.9, np.nan, 1e9], [0.0, 0.0], [1.0], [1e7, 2e7], [np.nan]])
def test_the_colour_ends_where_it_does_for_written_out_values(values: list[float]) -> None:
    sizes = np.array(values)
    counts = np.arange(3, 3 + sizes.size)
    written = np.repeat(sizes, counts)
    assert even_clip(sizes, counts) == pytest.approx(clip_of(written, np.ones(written.size, bool)))
    assert even_clip(sizes, np.zeros_like(counts)) == 1.0


@pytest.mark.parametrize("at", [0.0, 0.3, 0.5, 0.98, 1.0])
def test_quantiles_are_those_of_written_out_values(at: float) -> None:
    random = np.random.default_rng(1)
    values, counts = random.normal(size=20), random.integers(1, 9, 20)
    assert even_quantile(values, counts, at) == pytest.approx(np.quantile(np.repeat(values, counts), at))
