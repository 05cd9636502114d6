"""`/batches/{id}/loss`: whose tokens does the loss listen to?"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from pydantic import BeforeValidator, Field

from app.deps import Reader
from app.figures import FIGURES
from app.figures.chosen import Floats
from app.figures.ratios import OLD, SAMPLER
from app.figures.weights import Loss, effective, mode_of, read_loss, shares, token_weights
from app.pages.advantages import Picker, pick
from app.pages.batch import find_batch, way_below
from app.pages.page import Page
from app.pages.provenance import is_there, remedy_of
from app.pages.reading import Missing
from app.pages.run import ChartOf
from app.templating import Crumb, with_query
from estimators.loss_weights import LOSS_MODES, LossMode
from storage.models import Batch

#: What stands at the top of the table; the other modes are the same formulas under other names.
COMMON = 7
CLIP = 0.2
#: An empty input of a form is no number.
EMPTY = BeforeValidator(lambda value: value or None)
Scale = Annotated[Annotated[float, Field(gt=0, le=1e9)] | None, EMPTY]
Below = Annotated[Annotated[float, Field(ge=0, le=1)] | None, EMPTY]
Above = Annotated[Annotated[float, Field(ge=0, le=1000)] | None, EMPTY]
VIEWS = {"length": "By length", "response": "By response", "group": "By group"}


@dataclass(frozen=True, slots=True)
class ModeLine:
    """One way of averaging on this batch.

    lightest, heaviest  weight of a token in the response where it weighs least and most
    longest             share of the gradient that the longest tenth of the responses has
    up                  share of it that reinforces; None without advantages
    effective           as uneven as so many equally heavy responses
    """

    name: str
    framework: str
    formula: str
    sentence: str
    lightest: float | None
    heaviest: float | None
    longest: float | None
    up: float | None
    effective: float | None


@dataclass(frozen=True, slots=True)
class LossPage:
    """`told`: the mode that the file's header names, if it is a known one. `lacks`: what the ratio needs."""

    title: str
    crumbs: tuple[Crumb, ...]
    batch_id: str
    picker: Picker
    mode: ModeLine
    told: str | None
    width: float
    scale: float | None
    responses: int
    tokens: int
    why: str | None
    common: tuple[ModeLine, ...]
    others: tuple[ModeLine, ...]
    charts: tuple[ChartOf, ...]
    ratio: ChartOf | None
    lacks: tuple[Missing, ...]
    clip_low: float
    clip_high: float


def build(
    session: Reader,
    batch_id: str,
    estimate: str | None = None,
    mode: str | None = None,
    scale: Scale = None,
    clip_low: Below = None,
    clip_high: Above = None,
) -> LossPage:
    batch = find_batch(session, batch_id)
    picker, _ = pick(session, batch, estimate, per_token=True)
    loss = read_loss(session, batch, {"estimate": picker.used.key})
    used = mode_of(batch, mode if mode in LOSS_MODES else None)
    lines = {name: line_of(loss, each, scale) for name, each in LOSS_MODES.items()}
    asked = {"estimate": picker.used.key, "mode": used.name, "scale": scale}
    lacks = [name for name in (OLD, SAMPLER) if not is_there(batch.fields, name)]
    low, high = CLIP if clip_low is None else clip_low, CLIP if clip_high is None else clip_high
    clips = {"by": "ratio", "estimate": picker.used.key, "clip_low": low, "clip_high": high}
    views = [chart_of(batch, f"loss_{by}", title, {"by": by, **asked}) for by, title in VIEWS.items()]
    return LossPage(
        title="Loss weight",
        crumbs=(*way_below(session, batch, picker.used.key), Crumb("loss weight")),
        batch_id=batch.id,
        picker=picker,
        mode=lines[used.name],
        told=told_by(batch.header),
        width=loss.width,
        scale=scale,
        responses=int((loss.tokens > 0).sum()),
        tokens=int(loss.tokens.sum()),
        why=loss.why,
        common=tuple(lines.values())[:COMMON],
        others=tuple(lines.values())[COMMON:],
        charts=tuple(views),
        ratio=None if lacks else chart_of(batch, "loss_ratio", "Policy ratio", clips),
        lacks=tuple(Missing(name, remedy_of(name, batch.format)) for name in lacks),
        clip_low=low,
        clip_high=high,
    )


def told_by(header: Mapping[str, object]) -> str | None:
    """The mode that the file names, if it is a known one."""
    told = header.get("loss_agg_mode")
    return told if isinstance(told, str) and told in LOSS_MODES else None


def chart_of(batch: Batch, name: str, title: str, options: Mapping[str, object]) -> ChartOf:
    query = with_query("", **options)
    return ChartOf(name, title, f"/api/v1/batches/{batch.id}/figures/{FIGURES['loss_weights'].name}{query}")


def line_of(loss: Loss, mode: LossMode, scale: float | None) -> ModeLine:
    told = (mode.name, mode.framework, mode.formula, mode.sentence)
    live = loss.tokens > 0
    if not live.any():
        return ModeLine(*told, None, None, None, None, None)
    weights = token_weights(loss, mode, scale)
    share = shares(loss, weights)
    least, most = float(weights[live].min()), float(weights[live].max())
    if not share.any():
        return ModeLine(*told, least, most, None, None, None)
    return ModeLine(*told, least, most, longest_share(loss, share), up_share(loss, share), effective(share))


def longest_share(loss: Loss, share: Floats) -> float:
    """Of the longest tenth of the responses, at least one."""
    order = np.argsort(-loss.tokens, kind="stable")
    return float(share[order[: max(1, int((loss.tokens > 0).sum()) // 10)]].sum())


def up_share(loss: Loss, share: Floats) -> float | None:
    with np.errstate(invalid="ignore"):
        return None if loss.size is None else float(share[loss.direction > 0].sum())


PAGE = Page("/batches/{batch_id}/loss", "pages/loss.html", LossPage, build, "runs")
