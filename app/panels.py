"""What may stand on a dashboard: the body of the API, checked, and back.

A panel shows exactly one of: a figure, a rollout, a group, a text. Its parameters are frozen with it.
"""

from collections.abc import Sequence
from typing import Any

import orjson
from pydantic import BaseModel, ConfigDict, Field

from app.errors import AppError, Unprocessable
from app.figures import FIGURES
from storage import batches, estimates, rollouts
from storage.database import AnySession
from storage.models import Batch, Panel

MOST_PANELS = 60
MOST_OPTION_BYTES = 4096
KINDS = ("figure", "rollout", "group", "text")

Scalar = str | int | float | bool | None


class PanelBody(BaseModel):
    """One panel as it is sent: `figure`, `rollout` (its index), `group` (its group_id) or `text`."""

    model_config = ConfigDict(extra="forbid")

    figure: str | None = Field(default=None, max_length=64, description="Name of a figure.")
    rollout: int | None = Field(default=None, ge=0, description="Index of a rollout in its batch.")
    group: str | None = Field(default=None, max_length=10_000, description="group_id of a prompt group.")
    text: str | None = Field(default=None, max_length=20_000, description="Plain text.")
    batch: str | None = Field(
        None, max_length=32, description="Id of the batch; needed unless the panel is a text."
    )
    estimate: str | None = Field(
        None, max_length=32, description="Id of an estimate of the batch, or `recorded`."
    )
    options: dict[str, Scalar] = Field(default_factory=dict, description="Options of the figure.")
    caption: str = Field(default="", max_length=2_000)

    @property
    def kinds(self) -> list[str]:
        return [kind for kind in KINDS if getattr(self, kind) is not None]


class DashboardBody(BaseModel):
    """A new dashboard."""

    model_config = ConfigDict(extra="forbid")

    title: str = Field(min_length=1, max_length=200)
    note: str = Field(default="", max_length=20_000)
    panels: list[PanelBody] = Field(default_factory=list, max_length=MOST_PANELS)


class DashboardChanges(BaseModel):
    """Changes of a dashboard: what is left out stays as it is; `panels` replaces all of them."""

    model_config = ConfigDict(extra="forbid")

    title: str | None = Field(default=None, min_length=1, max_length=200)
    note: str | None = Field(default=None, max_length=20_000)
    panels: list[PanelBody] | None = Field(default=None, max_length=MOST_PANELS)


def columns(session: AnySession, bodies: Sequence[PanelBody]) -> list[dict[str, Any]]:
    """The panels as rows of `panel`. Raises Unprocessable with every panel that cannot be shown, and why."""
    found: list[dict[str, Any]] = []
    problems: list[dict[str, Any]] = []
    for place, body in enumerate(bodies):
        try:
            found.append(_columns(session, body))
        except AppError as error:
            field = str(error.members.get("field", ""))
            name = f"panels.{place}.{field}" if field else f"panels.{place}"
            problems.append({"row": None, "field": name, "message": error.detail})
    if problems:
        first = f"{problems[0]['field']}: {problems[0]['message']}"
        raise Unprocessable(first, problems)
    return found


def _columns(session: AnySession, body: PanelBody) -> dict[str, Any]:
    if len(body.kinds) != 1:
        given = " and ".join(body.kinds) or "none of them"
        raise Unprocessable(f"A panel shows one of figure, rollout, group or text; this one names {given}.")
    (kind,) = body.kinds
    row = {
        "kind": kind,
        "figure": body.figure,
        "batch_id": body.batch,
        "estimate_id": body.estimate or None,
        "options": dict(body.options),
        "caption": body.caption,
    }
    if kind == "text":
        return row | {"options": {"text": body.text}, "batch_id": None, "estimate_id": None}
    batch = _batch(session, body)
    _check_estimate(session, body, batch)
    if kind == "figure":
        _check_figure(body)
        return row
    if body.options:
        raise Unprocessable(f"Only figures have options; leave them out of a {kind}.", field="options")
    return row | {"options": _subject(session, body, batch)}


def _batch(session: AnySession, body: PanelBody) -> Batch:
    if body.batch is None:
        raise Unprocessable("Name the batch that the panel is about.", field="batch")
    batch = batches.get(session, body.batch)
    if batch is None:
        raise Unprocessable(
            f"There is no batch {body.batch!r}; GET /api/v1/batches lists them.", field="batch"
        )
    return batch


def _check_estimate(session: AnySession, body: PanelBody, batch: Batch) -> None:
    if body.estimate in (None, "", "recorded"):
        return
    estimate = estimates.get(session, body.estimate)
    if estimate is None or estimate.batch_id != batch.id:
        raise Unprocessable(
            f"The batch has no estimate {body.estimate!r}; use the id of one of its own, or leave it out.",
            field="estimate",
        )


def _check_figure(body: PanelBody) -> None:
    figure = FIGURES.get(body.figure or "")
    if figure is None:
        raise Unprocessable(
            f"There is no figure {body.figure!r}; choose one of {', '.join(FIGURES)}.", field="figure"
        )
    if len(orjson.dumps(body.options)) > MOST_OPTION_BYTES:
        raise Unprocessable(f"The options take more than {MOST_OPTION_BYTES} bytes.", field="options")
    try:
        figure.parse(figure_options(body.options, body.estimate))
    except AppError as error:
        raise Unprocessable(error.detail, field="options") from error


def figure_options(options: dict[str, Any], estimate: str | None) -> dict[str, Any]:
    """The options that a figure is built with: the frozen ones and the estimate."""
    return options | ({"estimate": estimate} if estimate else {})


def _subject(session: AnySession, body: PanelBody, batch: Batch) -> dict[str, Any]:
    if body.rollout is not None:
        if rollouts.get(session, batch.id, body.rollout) is None:
            raise Unprocessable(
                f"The batch has no rollout {body.rollout}; it has {batch.rollouts}, counted from 0.",
                field="rollout",
            )
        return {"index": body.rollout}
    if batches.group(session, batch.id, str(body.group)) is None:
        raise Unprocessable(f"The batch has no group {body.group!r}.", field="group")
    return {"group": body.group}


def describe(panel: Panel) -> dict[str, Any]:
    """The panel as the API shows it: what `PanelBody` takes, and its id."""
    inside = {"rollout": "index", "group": "group", "text": "text"}.get(panel.kind)
    options = {name: value for name, value in panel.options.items() if name != inside}
    subject = panel.figure if inside is None else panel.options[inside]
    return {
        "id": panel.id,
        panel.kind: subject,
        "batch": panel.batch_id,
        "estimate": panel.estimate_id,
        "options": options,
        "caption": panel.caption,
    }
