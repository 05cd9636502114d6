"""Analyses: reconciliations, sweeps; estimates compared."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from app.api.schemas.common import Number, Progress, Shape, State, Time
from estimators import Whitening, settings_schema
from estimators.sweep import MOST_POINTS

_RECONCILE: list[JsonValue] = [{}, {"convention": "gae/verl", "params": {"gamma": 0.99, "lam": 0.95}}]
_SWEEPS: list[JsonValue] = [
    {"estimator": "gae", "grid": {"gamma": [0.99, 1.0], "lam": [0.9, 0.95, 1.0]}},
    {"convention": "grpo/verl", "grid": {"whitening.scope": ["none", "group", "batch"]}},
]
Verdict = Literal["match", "ambiguous", "no_match", "nothing_recorded"]


class ReconcileBody(BaseModel):
    """What is known of the run beside what the file's header says; nothing is needed."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": _RECONCILE})

    convention: str | None = Field(None, max_length=96, description="The convention that was configured.")
    params: dict[str, Any] | None = Field(None, description="Parameters that were configured, by name.")


class SweepBody(BaseModel):
    """An estimator or convention with fixed settings, and the values that other settings run through."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": _SWEEPS})

    convention: str | None = Field(None, max_length=96, description="A name of GET /api/v1/conventions.")
    estimator: str | None = Field(None, max_length=96, description="A name of GET /api/v1/estimators.")
    params: dict[str, Any] | None = Field(None, description="The parameters that stay as they are.")
    whitening: dict[str, Any] | None = Field(None, json_schema_extra=settings_schema(Whitening))
    precision: Literal["float64", "float32"] | None = Field(None, description="float64 unless given.")
    grouping: str | None = Field(
        None, max_length=32, description="`group_id` (unless given), `prompt` or `stride:N`."
    )
    grid: Annotated[
        dict[str, list[Any]],
        Field(
            max_length=8,
            description="Parameter (or `whitening.<setting>`) -> its values; the last one's change fastest. "
            f"At most {MOST_POINTS} points in all.",
        ),
    ]


class AnalysisShape(Shape):
    """What every analysis has. The answer's fields are null until it has succeeded."""

    id: str
    batch: str
    request: dict[str, Any] = Field(description="What was asked for, everything spelt out.")
    default: bool = Field(description="Asked for by Vantage itself after the upload.")
    state: State
    progress: Progress
    device: str | None
    timing: dict[str, Any] | None
    error: str | None
    created: Time
    finished: float | None


class ContradictionItem(Shape):
    """One setting of the configured convention that the recorded numbers contradict."""

    name: str = Field(description="Of a parameter, or `whitening.<setting>`.", examples=["gamma"])
    configured: Any = Field(description="What was configured.", examples=[1.0])
    recorded: Any = Field(description="What the recorded numbers were made with.", examples=[0.9])
    said: bool = Field(description="False: nobody configured it, the convention has it so.")


class CandidateItem(Shape):
    """One way of computing advantages, and how near the recorded ones it comes."""

    convention: str = Field(examples=["grpo/verl"])
    mistake: str | None = Field(
        description="What has to be done wrong to get these numbers.", examples=["stride_grouping:4"]
    )
    matched: bool = Field(description="Every compared rollout agrees within the precision of the file.")
    max_abs_error: Number
    p99_abs_error: Number
    rollouts_matched: int
    rollouts: int = Field(description="Compared: with a recorded advantage and an unmasked token.")
    explanation: str
    whitening: Literal["own", "none", "other"] = Field(
        description="As the convention whitens, before its whitening, or by another kernel."
    )
    request: dict[str, Any] = Field(description="Body of an estimate with these numbers, but for a mistake.")
    same_as: list[str] = Field(description="Conventions that are the same formula with the same settings.")
    failing: list[int] = Field(description="Rollouts that do not agree, the furthest off first, at most 20.")
    contradicts: list[ContradictionItem] = Field(
        default=[],
        description="Settings that are not as configured, where the convention is the configured one.",
    )
    proved: bool = Field(
        default=False,
        description="The mistake is the only reading left and larger than what rounding can make. False for "
        "one that fits but has other readings, or where the framework is not known.",
    )


class ConfiguredItem(Shape):
    """What the file's header (or the request) says was configured."""

    convention: str | None
    framework: str | None
    estimator: str | None
    params: dict[str, Any] = Field(description="With a convention, the params of an estimate with it.")
    unknown_framework: str | None = Field(None, description="A framework that Vantage does not know.")
    unknown_estimator: str | None = Field(None, description="An estimator that Vantage does not know there.")
    not_understood: list[str] = Field(
        [], description="Keys about advantages of which Vantage does not know what they do."
    )
    alternatives: list[str] = Field(
        [], description="Conventions that it would be with settings of which the header says nothing."
    )


class DifferenceItem(Shape):
    """How far the recorded advantages lie from what was configured, and where."""

    convention: str
    params: dict[str, Any] = Field(description="Those that matter most, as they were taken.")
    compared: int = Field(description="Unmasked tokens, or rollouts where one number is recorded of each.")
    off: int = Field(description="Of these, how many differ by more than rounding.")
    rollouts: int
    rollouts_off: int
    max_abs_error: Number
    median_abs_error: Number
    scale: Number = Field(description="Root mean square of the computed numbers.")
    correlation: Number | None = Field(description="Of both; null where one of them does not vary.")
    rollout: int = Field(description="Where they differ most.")
    token: int | None = Field(description="The position there; null for one number per rollout.")
    recorded: Number
    computed: Number
    zeros: int = Field(description="Of those that differ, how many are recorded as 0.")
    ends: bool = Field(description="All that differ are the last unmasked token of their rollout.")
    shift: Literal[1, -1] | None = Field(
        description="By so many tokens late (1) or early (-1) nine in ten agree: `shifted` of them."
    )
    shifted: int
    failing: list[int] = Field(description="Rollouts that differ, the furthest off first, at most 200.")


class ReconcileDetail(AnalysisShape):
    """Which convention, or mistake, made the recorded advantages."""

    kind: Literal["reconcile"]
    recorded: Literal["token", "rollout"] | None = Field(description="Null where nothing is recorded.")
    verdict: Verdict | None
    candidates: list[CandidateItem] | None = Field(description="Best first.")
    precision: str | None = Field(description="How exactly the file has the numbers.", examples=["float32"])
    explanation: str | None
    deciding: str | None = Field(description="Where it is ambiguous: what would tell the candidates apart.")
    deciding_rollout: int | None = Field(description="The rollout on which those differ most.")
    configured: ConfiguredItem | None
    unknown: list[str] | None = Field(
        description="Fields and parameters that would have to be known to compute what was configured."
    )
    difference: DifferenceItem | None = Field(
        None, description="Where what was configured does not give the recorded numbers."
    )


class SignCounts(Shape):
    negative: int
    zero: int
    positive: int
    undefined: int


class FlipCount(Shape):
    count: int
    share: Number


class RawSpread(Shape):
    mean: Number
    std: Number


class SweepPoint(Shape):
    """The advantages of one point of the grid; null where the point is refused."""

    changed: dict[str, Any] = Field(description="What the point has of the grid.", examples=[{"lam": 0.9}])
    request: dict[str, Any] = Field(description="Body of the estimate of this point.")
    refused: str | None = Field(description="Why the point cannot be computed.")
    over: Literal["tokens", "rollouts"] = Field(description="What the numbers are of.")
    count: int | None
    mean: Number
    std: Number
    min: Number
    max: Number
    quantiles: dict[str, Number] | None
    quantiles_of: int | None = Field(description="Size of the even sample that quantiles are taken of.")
    signs: SignCounts | None
    flips: FlipCount | None = Field(description="Signs opposite to those of the first point.")
    raw: RawSpread | None = Field(description="Before whitening; the other numbers are after it.")


class SweepDetail(AnalysisShape):
    """One estimator over a grid of parameters: what the advantages of each point look like."""

    kind: Literal["sweep"]
    points: list[SweepPoint] | None


AnalysisDetail = ReconcileDetail | SweepDetail


class AnalysisPage(Shape):
    items: list[AnalysisDetail]
    next: str | None
    total: int
