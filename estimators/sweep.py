"""One estimator over a grid of parameters: what each point's advantages look like, and how many change sign
against the first point's. Nothing of their size is kept.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from math import prod
from typing import Any

from estimators.batch import Batch
from estimators.estimate import estimate
from estimators.masked import compress
from estimators.moments import of_values
from estimators.refused import Refused
from estimators.request import Request
from estimators.spread import Outcome, Signs, spread_of
from estimators.sweep_gae import gae_outcomes

#: Most points of one grid.
MOST_POINTS = 256
PARTS = ("params", "whitening")


def points_of(body: Mapping[str, Any], grid: Mapping[str, Sequence[Any]]) -> list[Outcome]:
    """The points of a grid, nothing computed yet; the values of the last name change fastest.

    `body` is that of a request (`Request.from_dict`); `grid` names its parameters, or settings of its
    whitening as "whitening.<name>", with the values of each. Raises ValueError that says what to change.
    """
    if not grid:
        raise ValueError('A sweep needs a grid, as {"gamma": [0.99, 1.0], "lam": [0.9, 0.95, 1.0]}.')
    sizes = {name: len(values) for name, values in grid.items()}
    for name, size in sizes.items():
        if not size:
            raise ValueError(f"grid.{name} is empty; give it at least one value, or leave it out.")
        part, key = _place(name)
        if key in (body.get(part) or {}):
            raise ValueError(f"{key} is in the grid and in {part}; give it in one of them.")
    if prod(sizes.values()) > MOST_POINTS:
        counted = " × ".join(map(str, sizes.values()))
        raise ValueError(
            f"The grid has {counted} = {prod(sizes.values()):,} points, and a sweep takes {MOST_POINTS}. "
            "Give fewer values, or sweep in parts."
        )
    points = [_point(body, dict(zip(grid, values, strict=True))) for values in product(*grid.values())]
    if any(point.request.whitening.scope == "running" for point in points):
        raise ValueError(
            "A sweep looks at one batch, and the running scope depends on earlier ones. Choose another scope "
            "or ask for estimates."
        )
    return points


def _place(name: str) -> tuple[str, str]:
    """The part of a request that a name of the grid belongs to, and its name there."""
    part, dot, rest = name.partition(".")
    return (part, rest) if dot and part in PARTS else ("params", name)


def _point(body: Mapping[str, Any], changed: dict[str, Any]) -> Outcome:
    parts = {part: dict(body.get(part) or {}) for part in PARTS}
    for name, value in changed.items():
        part, key = _place(name)
        parts[part][key] = value
    return Outcome(changed, Request.from_dict({**body, **parts}))


def sweep(batch: Batch, points: Sequence[Outcome]) -> Iterator[Outcome]:
    """The outcomes of `points` (from `points_of`) in their order, each as soon as it is computed."""
    quick = gae_outcomes(batch, points)
    return _one_by_one(batch, points) if quick is None else quick


def _one_by_one(batch: Batch, points: Sequence[Outcome]) -> Iterator[Outcome]:
    first: Signs | None = None
    for point in points:
        try:
            found = estimate(batch, point.request)
        except Refused as refused:
            yield replace(point, refused=str(refused))
            continue
        if found.per_token:
            after = compress(found.advantages, batch.response_mask)
            before = compress(found.advantages_raw, batch.response_mask)
        else:
            after, before = found.summaries.mean, found.summaries.raw_mean
        signs = Signs(after < 0, after > 0)
        first = first or signs
        yield replace(
            point,
            per_token=found.per_token,
            spread=spread_of(after),
            raw=of_values(before),
            flips=signs.opposite(first),
        )
