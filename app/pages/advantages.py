"""Which advantages a page shows, what else could be shown, and where their colour ends."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from app.errors import NotFound
from app.figures import chosen as choosing
from app.figures.chosen import RECORDED, Chosen, Floats
from app.figures.even import even_clip
from app.figures.kept import columns_of
from app.figures.token_heatmap import clip_of
from app.formatting import number
from storage import estimates
from storage.database import ReadSession
from storage.kept import Kept
from storage.models import Batch, Estimate
from storage.rollouts import Columns

#: Clips that were computed from all tokens of a step; a batch and a finished estimate never change.
_CLIPS: Kept[tuple[str, str], float] = Kept(512)


@dataclass(frozen=True, slots=True)
class Offer:
    """One entry of the picker. `key` is what stands in the URL: an estimate's id, or "recorded"."""

    key: str
    label: str
    detail: str
    state: str
    done: int
    total: int
    error: str | None


@dataclass(frozen=True, slots=True)
class InUse:
    """The advantages that a page shows, or `why` there are none.

    key     estimate id, "recorded", or None
    origin  "recomputed", "recorded" or ""
    detail  whitening, precision and device in words
    """

    key: str | None
    label: str
    origin: str
    detail: str
    per_token: bool
    request: dict[str, Any]
    summary: dict[str, Any]
    why: str | None


@dataclass(frozen=True, slots=True)
class Picker:
    """`waiting`: the estimate in the URL that is not finished, with its progress."""

    offers: tuple[Offer, ...]
    used: InUse
    waiting: Offer | None


def pick(
    session: ReadSession, batch: Batch, asked: str | None, *, per_token: bool = False
) -> tuple[Picker, Chosen]:
    """The picker of a page and the advantages to read. Raises NotFound for an estimate of another batch."""
    made = estimates.of_batch(session, batch.id)
    offers = [offer_of(estimate) for estimate in made]
    if any(batch.fields.get(name) == RECORDED for name in ("advantages", "advantage")):
        offers.append(Offer(RECORDED, "recorded", "as the file has them", "succeeded", 0, 0, None))
    waiting = next((offer for offer in offers if offer.key == asked and offer.state != "succeeded"), None)
    if asked is not None and not any(offer.key == asked for offer in offers):
        raise NotFound("This batch has no such estimate; choose one of those that its page lists.")
    chosen = choosing.choose(session, batch, None if waiting else asked, per_token=per_token, made=made)
    return Picker(tuple(offers), in_use(batch, chosen), waiting), chosen


def offer_of(estimate: Estimate) -> Offer:
    return Offer(
        estimate.id,
        estimate.convention or estimate.estimator,
        describe(estimate.request),
        estimate.state,
        estimate.done,
        estimate.total,
        estimate.error,
    )


def in_use(batch: Batch, chosen: Chosen) -> InUse:
    if chosen.why is not None:
        return InUse(None, "none", "", "", False, {}, {}, chosen.why)
    estimate = chosen.estimate
    if estimate is None:
        per_token = chosen.field is not None
        return InUse(RECORDED, "recorded", "recorded", "as the file has them", per_token, {}, {}, None)
    detail = " · ".join([describe(estimate.request), *([estimate.device] if estimate.device else [])])
    return InUse(
        estimate.id,
        estimate.convention or estimate.estimator,
        "recomputed",
        detail,
        chosen.field is not None,
        dict(estimate.request),
        dict(estimate.summary or {}),
        None,
    )


def describe(request: Mapping[str, Any]) -> str:
    """What a request does: `γ 1, λ 0.95 · whitened over batch, per token (ddof 1, ε 1e−8 added)`."""
    params, whitening = request.get("params", {}), request.get("whitening", {})
    told = {"gamma": "γ", "lam": "λ", "epsilon": "ε", "kl_coef": "KL coefficient"}
    parts = [f"{sign} {number(params[name])}" for name, sign in told.items() if params.get(name)]
    said = [", ".join(parts)] if parts else []
    if whitening.get("scope", "none") == "none":
        said.append("not whitened")
    else:
        placed = whitening["eps_placement"].replace("_", " ")
        spread = f"ddof {whitening['ddof']}, ε {number(whitening['eps'])} {placed}"
        scope = whitening["scope"].replace("_", " ")
        said.append(f"whitened over {scope}, per {whitening['unit']} ({spread})")
    if request.get("precision") == "float32":
        said.append("float32")
    if request.get("grouping", "group_id") != "group_id":
        said.append(f"grouped by {request['grouping']}")
    return " · ".join(said)


def mean_advantages(session: ReadSession, batch: Batch, chosen: Chosen, columns: Columns) -> Floats:
    """Mean advantage of each rollout, `[B]` in storage order; NaN where it has none (or, recorded, no finite
    one)."""
    means = choosing.per_rollout(session, batch, chosen, columns)
    return means if chosen.estimate is not None else np.where(np.isfinite(means), means, np.nan)


def step_clip(session: ReadSession, batch: Batch, chosen: Chosen) -> float:
    """Where the colours end: the p98 of |A| over the step's unmasked tokens, the same for all its views."""
    if chosen.why is not None:
        return 1.0
    finished = "" if chosen.estimate is None else f"{chosen.estimate.id}:{chosen.estimate.finished}"
    key = (batch.id, finished)
    return _CLIPS.get(key, lambda: _clip(session, batch, chosen))


def _clip(session: ReadSession, batch: Batch, chosen: Chosen) -> float:
    if chosen.field is not None:
        read = choosing.tokens(session, batch, chosen.field)
        return 1.0 if read is None else clip_of(read[0], read[2])
    columns = columns_of(session, batch)
    means = mean_advantages(session, batch, chosen, columns)
    known = ~np.isnan(means)
    tokens = np.where(columns.valid >= 0, columns.valid, np.where(columns.length >= 0, columns.length, 1))
    return even_clip(means[known], tokens[known])
