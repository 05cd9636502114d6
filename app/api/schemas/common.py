"""What many answers share."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

Nonfinite = Annotated[
    dict[str, str],
    Field(description="Index -> `NaN`, `Infinity` or `-Infinity`, for the numbers that stand as null."),
]
NonfiniteFields = Annotated[
    dict[str, str | dict[str, str]],
    Field(
        description="Field -> what its null is (`NaN`, `Infinity`, `-Infinity`); of an array, index -> what.",
        examples=[{"rollout_log_probs": {"3": "-Infinity"}}],
    ),
]
Number = float | None
State = Literal["queued", "running", "succeeded", "failed", "cancelled"]
Time = Annotated[float, Field(description="Unix seconds.", examples=[1764428400.0])]
Numbers = Annotated[list[float | int | None], Field(description="One value per response token.")]


class Shape(BaseModel):
    """Every field is there in every answer; what does not exist is null."""

    model_config = ConfigDict(extra="forbid")


class UncheckedItem(Shape):
    """A check that could not be done. What it would have found, nobody knows; every row is stored."""

    check: str = Field(description="The finding's code, or another check's.", examples=["nonfinite_values"])
    title: str
    message: str = Field(examples=["Could not be checked: Values that are NaN, infinite or missing."])


class RowProblem(Shape):
    """`row` counts from 1; null where it is about the file or the request."""

    row: int | None
    field: str | None
    message: str


class Problem(BaseModel):
    """Problem details (RFC 9457). `detail` says what to do."""

    type: str = Field(examples=["urn:vantage:not-found"])
    title: str = Field(examples=["Not found"])
    status: int = Field(examples=[404])
    detail: str = Field(examples=["There is no batch 'x'. GET /api/v1/batches lists them."])
    problems: list[RowProblem] = Field(default_factory=list, description="Rows or fields at fault.")
    request_id: str | None = Field(
        None, description="Of an internal error: where to look in the server's log."
    )


class Progress(Shape):
    """How far a job is. `done` of `total` counts in `unit`."""

    state: State
    stage: str = Field(examples=["storing"])
    done: int
    total: int
    unit: Literal["bytes", "rollouts", "steps"]
    elapsed_seconds: Number
    per_second: Number
    eta_seconds: Number
    attempts: int
    cancel_requested: bool
    error: str | None


def responses(described: dict[int, str], model: Any) -> dict[int | str, dict[str, Any]]:
    """Further answers of an endpoint, each with a body of `model`."""
    return {status: {"description": text, "model": model} for status, text in described.items()}


def accepted(model: Any, text: str = "Not ended yet: ask again at the address in Location.") -> Any:
    return responses({202: text}, model)


def binary(*media_types: str, text: str) -> dict[int | str, dict[str, Any]]:
    """A 200 that may also be one of these media types."""
    content = {kind: {"schema": {"type": "string", "format": "binary"}} for kind in media_types}
    return {200: {"description": text, "content": content}}
