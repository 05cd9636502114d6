"""Estimators, conventions, estimates, figures."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from app.api.schemas.common import NonfiniteFields, Number, Progress, Shape, State, Time
from estimators import Whitening, settings_schema

_EXAMPLES: list[JsonValue] = [
    {"convention": "grpo/trl-group"},
    {"estimator": "gae", "params": {"gamma": 1.0, "lam": 0.95}, "whitening": {"scope": "batch"}},
]


class EstimateBody(BaseModel):
    """A convention, or an estimator; parameters and whitening go over what the convention says."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": _EXAMPLES})

    convention: str | None = Field(None, max_length=96, description="A name of GET /api/v1/conventions.")
    estimator: str | None = Field(None, max_length=96, description="A name of GET /api/v1/estimators.")
    params: dict[str, Any] | None = Field(None, description="As the estimator's `params` describes them.")
    whitening: dict[str, Any] | None = Field(None, json_schema_extra=settings_schema(Whitening))
    precision: Literal["float64", "float32"] | None = Field(None, description="float64 unless given.")
    grouping: str | None = Field(
        None, max_length=32, description="`group_id` (unless given), `prompt`, `stride:N` or `integer_id`."
    )


class EstimatorItem(Shape):
    name: str
    sentence: str
    formula: str
    paper: str
    needs: list[str] = Field(description="Fields without which it cannot be computed.")
    params: dict[str, Any] = Field(description="JSON Schema of the parameters, with defaults.")
    conventions: list[str]


class EstimatorPage(Shape):
    items: list[EstimatorItem]
    whitening: dict[str, Any] = Field(description="JSON Schema of the whitening of every estimate.")
    groupings: list[str]
    next: str | None
    total: int


class ConventionItem(Shape):
    name: str = Field(examples=["grpo/verl"])
    estimator: str
    params: dict[str, Any]
    whitening: dict[str, Any]
    grouping: str
    framework: str | None
    version: str | None = Field(description="The framework's version with which its numbers agree.")
    note: str


class ConventionPage(Shape):
    items: list[ConventionItem]
    next: str | None
    total: int


class EstimateDetail(Shape):
    """`summary` and `timing` are null until the estimate has succeeded."""

    id: str
    batch: str
    convention: str | None
    estimator: str
    request: dict[str, Any] = Field(description="What was asked for, everything spelt out.")
    default: bool = Field(description="Asked for by Vantage itself after the upload.")
    state: State
    progress: Progress
    device: str | None
    timing: dict[str, Any] | None
    per_token: bool | None = Field(description="One advantage per token, or one per rollout.")
    summary: dict[str, Any] | None
    error: str | None
    created: Time
    finished: float | None


class EstimatePage(Shape):
    items: list[EstimateDetail]
    next: str | None
    total: int


class Advantages(Shape):
    """Advantages of one rollout, one per response token; a masked token has what the convention leaves there.

    Where no token of the rollout is recorded, it stands as one token and `response_mask` is null.
    """

    index: int
    group_id: str
    response_mask: list[int] | None
    advantages: list[Number]
    advantages_raw: list[Number] = Field(description="Before whitening.")
    returns: list[Number] | None = Field(
        description="Targets of the critic; without one, of estimators comparing rollouts: advantages_raw."
    )
    nonfinite: NonfiniteFields


class FigureItem(Shape):
    name: str
    title: str
    shows: str
    needs: list[str]
    scope: Literal["batch", "run"]
    options: dict[str, Any] = Field(description="Query parameters of the figure.")


class FigurePage(Shape):
    items: list[FigureItem]
    next: str | None
    total: int


class PlotlyFigure(BaseModel):
    """A Plotly figure; `layout.meta` has its caption (`sentence`) and why it shows nothing (`empty`)."""

    model_config = ConfigDict(extra="forbid")

    data: list[dict[str, Any]]
    layout: dict[str, Any]
