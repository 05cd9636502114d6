"""Sweeps: one estimator over a grid of parameters, from the API's body to its answer."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from app.errors import Unprocessable
from estimators.spread import QUANTILES, Outcome
from estimators.sweep import points_of

#: What a sweep's body has of an estimate's.
REQUEST = ("convention", "estimator", "params", "whitening", "precision", "grouping")


def points(body: Mapping[str, Any]) -> list[Outcome]:
    """The points that a sweep's body asks for. Raises Unprocessable."""
    start = {name: body[name] for name in REQUEST if body.get(name) is not None}
    try:
        return points_of(start, body.get("grid") or {})
    except ValueError as error:
        raise Unprocessable(str(error)) from error


def normalised(body: Mapping[str, Any]) -> dict[str, Any]:
    """The body with every default spelt out: equal for sweeps that are the same. Raises Unprocessable."""
    first = points(body)[0].request.to_dict()
    grid = {name: list(values) for name, values in body["grid"].items()}
    for name in grid:
        part, _, key = (
            name.partition(".") if name.startswith(("params.", "whitening.")) else ("params", "", name)
        )
        first[part].pop(key, None)
    return {**first, "grid": grid}


def shown(outcome: Outcome) -> dict[str, Any]:
    """A point as the API shows it; null where there are too few numbers."""
    body: dict[str, Any] = {
        "changed": outcome.changed, "request": outcome.request.to_dict(), "refused": outcome.refused,
        "over": "tokens" if outcome.per_token else "rollouts",
    }  # fmt: skip
    spread, raw = outcome.spread, outcome.raw
    if spread is None or raw is None:
        empty = ("count", "mean", "std", "min", "max", "quantiles", "quantiles_of", "signs", "flips", "raw")
        return body | dict.fromkeys(empty)
    count = int(spread.moments.count)
    return body | {
        "count": count,
        "mean": spread.moments.mean if count else None,
        "std": _std(spread.moments.variance()),
        "min": spread.least if count else None,
        "max": spread.greatest if count else None,
        "quantiles": {f"{q:g}": value for q, value in zip(QUANTILES, spread.quantiles, strict=True)},
        "quantiles_of": spread.sampled,
        "signs": {
            "negative": spread.negative, "zero": spread.zero, "positive": spread.positive,
            "undefined": spread.undefined,
        },
        "flips": {"count": outcome.flips, "share": outcome.flips / count if count else None},
        "raw": {"mean": raw.mean if raw.count else None, "std": _std(raw.variance())},
    }  # fmt: skip


def _std(variance: float) -> float | None:
    return float(np.sqrt(variance)) if np.isfinite(variance) else None
