"""What a batch's page and its run's page show without reading a rollout: stored once, in `Batch.statistics`.

    fillers       rows that only fill up the batch: all other numbers are without them
    reward        n, unscored, nonfinite, mean, std (ddof 1), min, max, quantiles 5 25 50 75 95
    histogram     edges and counts of the scored rewards; "values" instead of edges where they are few
    signal        groups (and their rollouts) that are all-fail, all-pass, near-zero, mixed, single or
    unscored zero_signal_share   groups whose rewards are all equal, of the groups with at least two scored
    rollouts truncated     how many, of how many that say so
    length        quantiles of the response tokens, of all and by outcome
    group_size    the usual size, smallest, largest
    advantage     mean, std, quantiles of the recorded advantages per rollout
    data_sources  one row per task

A reward above `pass_above` passes: the middle between the batch's lowest and highest (0 where they are the
same). Numbers that do not exist are null. Everything is plain JSON.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.findings.fillers import fillers, without
from app.findings.near_zero_variance_groups import near_zero
from app.findings.prompts import read_prompts
from app.findings.reading import read_view
from app.findings.view import Bools, Floats, GroupStatistics, View, group_statistics
from storage.database import AnySession

QUANTILES = (5, 25, 50, 75, 95)
BINS = 24
FEW = 16  # up to this many different rewards are counted one by one
MOST_SOURCES = 50
SIGNALS = ("fail", "pass", "near_zero", "mixed", "single", "unscored")


def for_batch(session: AnySession, batch_id: str, fields: dict[str, Any] | None = None) -> dict[str, Any]:
    """The statistics of a batch in any state. `fields` as in `app.findings.run`."""
    view = read_view(session, batch_id, fields, deep=False)
    view.prompts = read_prompts(session, batch_id, view.index, view.columns.group_no)
    return batch_statistics(view)


def batch_statistics(view: View) -> dict[str, Any]:
    """The statistics of a view."""
    aside = fillers(view)
    recorded = view.columns.advantage[~aside]  # of rollouts, not means of those of tokens
    if aside.any():
        view = without(view, aside)
    groups = group_statistics(view.reward, view.group, view.groups)
    threshold = pass_above(view.reward)
    cut = view.truncated
    signal = group_signal(view, groups, threshold) if view.grouped else None
    live = view.live_groups
    compared = int((live & (groups.scored >= 2)).sum()) if view.grouped else 0
    return {
        "rollouts": view.rollouts,
        "fillers": int(aside.sum()),
        "reward": {
            "n": int(view.scored.sum()),
            "unscored": int((~view.scored).sum()),
            "nonfinite": sum(kind is not None for kind in view.nonfinite.tolist()),
            **describe(view.reward),
        },
        "histogram": histogram(view.reward),
        "pass_above": threshold,
        "signal": None if signal is None else _budget(view, signal),
        "zero_signal_share": int((live & groups.constant).sum()) / compared if compared else None,
        "truncated": {"n": int((cut == 1).sum()), "known": int((cut >= 0).sum())},
        "length": _lengths(view, threshold),
        "group_size": _group_size(view) if view.grouped else None,
        "advantage": {"n": int(np.isfinite(recorded).sum()), **describe(recorded)},
        "data_sources": _sources(view, groups, threshold),
    }


def describe(values: Floats) -> dict[str, Any]:
    """Mean, std (ddof 1), min, max and quantiles of the finite values; null where there are too few."""
    kept = values[np.isfinite(values)]
    if not kept.size:
        return {"mean": None, "std": None, "ddof": 1, "min": None, "max": None, "quantiles": None}
    points = np.quantile(kept, np.array(QUANTILES) / 100)
    return {
        "mean": float(kept.mean()),
        "std": float(kept.std(ddof=1)) if kept.size > 1 else None,
        "ddof": 1,
        "min": float(kept.min()),
        "max": float(kept.max()),
        "quantiles": {str(q): float(point) for q, point in zip(QUANTILES, points, strict=True)},
    }


def pass_above(reward: Floats) -> float:
    """The reward above which a rollout passes: halfway from lowest to highest; 0 where they are one."""
    kept = reward[np.isfinite(reward)]
    if not kept.size or kept.min() == kept.max():
        return 0.0
    return float(kept.min() / 2 + kept.max() / 2)


def histogram(values: Floats, edges: NDArray[np.float64] | None = None) -> dict[str, Any]:
    """Counts of the finite values: per value where there are at most 16, else in 24 bins of equal width."""
    kept = values[np.isfinite(values)]
    if edges is None:
        single, counts = np.unique(kept, return_counts=True)
        if single.size <= FEW:
            return {"values": single.tolist(), "edges": None, "counts": counts.tolist()}
        edges = 2 * np.linspace(kept.min() / 2, kept.max() / 2, BINS + 1)  # whose width may overflow
    counts, _ = np.histogram(kept, bins=edges)
    return {"values": None, "edges": edges.tolist(), "counts": counts.tolist()}


def group_signal(view: View, groups: GroupStatistics, threshold: float) -> NDArray[np.object_]:
    """`[G]` one of SIGNALS per group: what its rewards have to teach."""
    kind = np.full(view.groups, "mixed", dtype=object)
    kind[near_zero(view, groups)] = "near_zero"
    with np.errstate(invalid="ignore"):
        kind[groups.constant & ~(groups.mean > threshold)] = "fail"
        kind[groups.constant & (groups.mean > threshold)] = "pass"
    kind[groups.scored == 1] = "single"
    kind[(groups.scored == 0) | ~view.live_groups] = "unscored"
    return kind


def _budget(view: View, signal: NDArray[np.object_]) -> dict[str, Any]:
    sizes = view.sizes
    return {
        "groups": {name: int((signal == name).sum()) for name in SIGNALS},
        "rollouts": {name: int(sizes[signal == name].sum()) for name in SIGNALS},
    }


def _lengths(view: View, threshold: float) -> dict[str, Any]:
    known = view.length >= 0
    length = np.where(known, view.length, np.nan).astype(np.float64)
    with np.errstate(invalid="ignore"):
        passed: Bools = view.reward > threshold
    return {
        "n": int(known.sum()),
        "trainable": int(view.valid[view.valid >= 0].sum()),
        "all": describe(length),
        "pass": describe(length[passed & view.scored]),
        "fail": describe(length[~passed & view.scored]),
    }


def _group_size(view: View) -> dict[str, Any]:
    sizes, counts = np.unique(view.sizes, return_counts=True)
    if not sizes.size:
        return {"usual": None, "min": None, "max": None}
    usual = int(sizes[::-1][np.argmax(counts[::-1])])
    return {"usual": usual, "min": int(sizes[0]), "max": int(sizes[-1])}


def _sources(view: View, groups: GroupStatistics, threshold: float) -> list[dict[str, Any]]:
    source_of_group = np.full(view.groups, -1, dtype=np.int64)
    source_of_group[view.group] = view.source
    rows = []
    for number, name in list(enumerate(view.sources))[:MOST_SOURCES]:
        mine = view.source == number
        own = source_of_group == number
        if not mine.any():
            continue
        compared = int((own & (groups.scored >= 2)).sum()) if view.grouped else 0
        reward = view.reward[mine & view.scored]
        length = view.length[mine & (view.length >= 0)]
        rows.append(
            {
                "data_source": name,
                "rollouts": int(mine.sum()),
                "groups": int(own.sum()) if view.grouped else None,
                "n": int(reward.size),
                "mean": float(reward.mean()) if reward.size else None,
                "std": float(reward.std(ddof=1)) if reward.size > 1 else None,
                "pass_share": float((reward > threshold).mean()) if reward.size else None,
                "zero_signal_share": int((own & groups.constant).sum()) / compared if compared else None,
                "mean_length": float(length.mean()) if length.size else None,
            }
        )
    return rows
