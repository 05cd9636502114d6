"""What should be there by its numbers: ranks, files of a series, positions in a group, declared counts."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from app.findings.view import Ints

#: Names under which files declare how many there are.
WORLD = (
    "world_size",
    "dp_size",
    "dp_world_size",
    "data_parallel_size",
    "num_ranks",
    "num_shards",
    "n_shards",
)
ROLLOUTS = ("rollouts", "num_rollouts", "n_rollouts", "total_rollouts", "total_samples", "rows", "num_rows")
GROUPS = ("groups", "num_groups", "n_groups", "num_prompts", "n_prompts", "prompts")
GROUP_SIZE = ("group_size", "num_generations", "n_samples_per_prompt", "num_samples_per_prompt", "rollout_n")

OF_MANY = re.compile(r"(\d+)[-_.]of[-_.](\d+)", re.IGNORECASE)
RANKED = re.compile(r"(?:rank|dp|shard|worker|part)[-_.]?(\d+)", re.IGNORECASE)
MOST_SHARDS = 100_000  # no training has more; a number beyond is something else


@dataclass(frozen=True, slots=True)
class Series:
    """Numbers of a series that are there, and those that are not. `declared`: somebody said how many."""

    what: str
    present: int
    missing: list[int]
    declared: bool


def declared(header: Mapping[str, Any], names: Iterable[str]) -> int | None:
    """The first of these that the header has as a whole number of at least 1."""
    for name in names:
        value = header.get(name)
        if isinstance(value, int) and not isinstance(value, bool) and value >= 1:
            return value
    return None


def series(what: str, numbers: Sequence[int], count: int | None) -> Series | None:
    """Which of 0 … count − 1 (or 1 … count) are not there. Without a count, gaps between them only.

    Where every k-th number is there (one rank of each tensor-parallel group writes), or a series starts at 1,
    nothing is missing.
    """
    there = sorted({number for number in numbers if 0 <= number < MOST_SHARDS})
    if not there or (count is not None and count > MOST_SHARDS):
        return None
    if count is None:
        steps = {b - a for a, b in pairwise(there)}
        if len(there) < 2 or len(steps) == 1:
            return None
        first, last = min(there[0], 1), there[-1]
    else:
        first = 1 if there[-1] == count else 0
        last = first + count - 1
        step = count // len(there) if count % len(there) == 0 else 1
        if there[-1] > last or (step > 1 and len(there) > 1 and there == list(range(there[0], count, step))):
            return None
    missing = sorted(set(range(first, last + 1)) - set(there))
    return Series(what, len(there), missing, count is not None) if missing else None


def in_file_names(files: Sequence[str]) -> Series | None:
    """A series in the names: `00001-of-00004`, `rank_3`, `shard-0002`."""
    of_many = [found for name in files if (found := OF_MANY.search(name)) is not None]
    if of_many and len({found[2] for found in of_many}) == 1:
        return series("file", [int(found[1]) for found in of_many], int(of_many[0][2]))
    ranked = [int(found[1]) for name in files if (found := RANKED.search(name)) is not None]
    return series("file", ranked, None) if len(ranked) == len(files) else None


def holes_in_groups(position: Ints, group: Ints, groups: int) -> tuple[Ints, int]:
    """`[G]` positions that a group lacks, where rollouts are numbered inside it; and the usual count.

    A group lacks the numbers between its own first and last, and those up to where most groups begin and end:
    one group with a rollout more makes no holes in the others. A group that is numbered from another start,
    as many as usual without a gap, lacks nothing.

    Nothing where the numbers are not such positions: repeated inside a group, or beyond the usual size.
    """
    nothing: Ints = np.zeros(groups, dtype=np.int64)
    if (position < 0).any() or np.unique(np.stack([group, position]), axis=1).shape[1] < group.size:
        return nothing, 0
    sizes = np.bincount(group, minlength=groups)
    if groups < 2 or int(np.ptp(position)) >= 2 * sizes.max() or np.median(sizes) < 2:
        return nothing, 0
    low, high = np.full(groups, position.max()), np.full(groups, -1)
    np.minimum.at(low, group, position)
    np.maximum.at(high, group, position)
    some = sizes > 0
    first, last = _most(low[some]), _most(high[some])
    size = last - first + 1
    if first > 1 or size < 2:
        return nothing, 0
    inside = high - low + 1 - sizes
    outside = np.maximum(low - first, 0) + np.maximum(last - high, 0)
    whole = (inside == 0) & (sizes >= size)
    return np.where(some & ~whole, inside + outside, 0), size


def _most(numbers: Ints) -> int:
    """The most frequent number, of several the smallest."""
    values, counts = np.unique(numbers, return_counts=True)
    return int(values[np.argmax(counts)])


def holes_in_batch(position: Ints, group: Ints) -> Ints:
    """Numbers that are missing where rollouts are numbered through the batch.

    A gap between two groups of as many numbers as groups have rollouts is a filtered group, and none.
    """
    nothing: Ints = np.zeros(0, dtype=np.int64)
    if position.size < 4 or (position < 0).any() or np.unique(position).size < position.size:
        return nothing
    order = np.argsort(position)
    number, owner = position[order], group[order]
    gap = np.diff(number) - 1
    if gap.sum() > position.size:
        return nothing  # not numbered one by one
    usual = int(np.median(np.bincount(group)[np.unique(group)]))
    filtered = (owner[1:] != owner[:-1]) & (gap % max(usual, 1) == 0)
    places = np.flatnonzero((gap > 0) & ~filtered)
    found = [np.arange(number[i] + 1, number[i + 1]) for i in places.tolist()]
    return np.concatenate(found) if found else nothing
