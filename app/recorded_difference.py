"""How far a batch's recorded advantages lie from what was configured: for the answer of a reconciliation."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from estimators import Batch, Request
from estimators.difference import difference
from estimators.reconcile_configured import request_of
from estimators.reconciliation import Hints, Recorded

#: Parameters that a sentence names.
NAMED = ("gamma", "lam", "epsilon", "reward_weights", "kl_coef")


def from_configured(
    batch: Batch, recorded: Recorded, configured: Mapping[str, Any], index: NDArray[np.int64]
) -> dict[str, Any] | None:
    """`estimators.difference.Difference` with the rollouts' own numbers (`index` `[B]`), the `convention` and
    its named `params`. None where no convention is configured or the batch does not allow it."""
    hints = Hints(params=configured.get("params") or {}, convention=configured.get("convention"))
    request = request_of(hints)
    if request is None or request.grouping != "group_id":
        return None
    found = difference(batch, recorded, request)
    if found is None:
        return None
    shown = {
        name: getattr(request.params, name)
        for name in NAMED
        if getattr(request.params, name, None) is not None and _matters(name, request)
    }
    return asdict(found) | {
        "convention": request.convention,
        "params": shown,
        "rollout": int(index[found.rollout]),
        "failing": index[list(found.failing)].tolist(),
    }


def _matters(name: str, request: Request) -> bool:
    return name != "kl_coef" or bool(getattr(request.params, "kl_coef", 0))
