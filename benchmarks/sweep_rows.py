"""A sweep of 25 pairs of γ and λ on one batch, packing and summaries included, beside the loop of verl and
an estimate of its own for each pair: lines for estimators_beside_peers.py."""

from collections.abc import Callable

import torch
from estimator_inputs import SIZES, Row, copy_of, padded
from estimator_table import row
from timing import race

from estimators import estimate
from estimators.layout import layout_of
from estimators.recurrence import gae_packed
from estimators.sweep import points_of, sweep

CACHE = "the recurrence is all of it, on tiles in a cache that the machine's other work shares"
SUMMED = (
    "beside the recurrence each pair's advantages are summed up: moments, extremes, signs and a sample, more "
    "passes over the tile in the cache"
)
GRID = {"gamma": [0.9, 0.95, 0.98, 0.99, 1.0], "lam": [0.0, 0.5, 0.9, 0.95, 1.0]}
PAIRS = [(gamma, lam) for gamma in GRID["gamma"] for lam in GRID["lam"]]


def sweep_rows(verls_loop: Callable[[Row], Callable[[], object]], rounds: int) -> list[Row]:
    """The recurrence alone, as in `estimate`, and the whole of what a sweep answers."""
    batch, given = padded(*SIZES["M"], True)
    layout = layout_of(batch)
    assert batch.token_level_rewards is not None and batch.values is not None
    r, v = (layout.pack(part, torch.float32) for part in (batch.token_level_rewards, batch.values))
    out = (torch.empty_like(r), torch.empty_like(r))
    points = points_of({"estimator": "gae", "precision": "float32"}, GRID)
    valid = int(batch.response_mask.sum()) * len(PAIRS)

    def recurrence() -> None:
        for gamma, lam in PAIRS:
            gae_packed(r, v, layout, gamma, lam, out)

    contestants = {
        "ours": recurrence,
        "whole": lambda: list(sweep(batch, points)),
        "one": lambda: estimate(batch, points[7].request),
        "peer": verls_loop(given),
        "floor": copy_of(16 * valid / len(PAIRS)),
    }
    result = race(contestants, rounds)
    alone = row("sweep of 25 (γ, λ), half valid", "M", result, valid, "25 of verl's loops", 55, 0, CACHE)
    alone |= {"faster": alone["faster"] * len(PAIRS), "floors": None, "floors_at_most": None}
    alone |= {"unit": "token and pair", "ns_at_most": 5}
    seconds = result.median("whole") / valid
    return [
        alone,
        alone | _whole(seconds, result.ratio("peer", "whole"), "25 of verl's loops", 55) | {"ns_at_most": 5},
        alone | _whole(seconds, result.ratio("one", "whole"), "25 estimates", 3) | {"ns_at_most": None},
    ]


def _whole(seconds: float, faster: float, peer: str, at_least: float) -> Row:
    return {
        "what": "the same, packed and summed up",
        "ns": seconds * 1e9,
        "peer": peer,
        "faster": faster * len(PAIRS),
        "faster_at_least": at_least,
        "why": SUMMED,
    }
