"""Uploads and jobs."""

from typing import Any, Literal

from pydantic import Field

from app.api.schemas.common import Progress, Shape, State, Time, UncheckedItem, responses


class UploadCounts(Shape):
    rows: int = Field(examples=[16])
    accepted: int = Field(examples=[16])
    rejected: int = Field(examples=[0])


class UploadedBatch(Shape):
    id: str
    run: str
    step: int | None
    split: str | None
    rollouts: int
    groups: int
    tokens: int
    unchecked: list[UncheckedItem] = Field(description="Checks that could not be done; the rows stand.")


class UploadProblem(Shape):
    """`error`: the row was not taken. `warning`: taken, but something is missing or doubtful. `info`:
    harmless."""

    file: str | None
    row: int | None = Field(description="Row of the file, from 1.", examples=[8])
    field: str | None = Field(examples=["advantages"])
    severity: Literal["error", "warning", "info"]
    code: str = Field(examples=["length_mismatch"])
    message: str = Field(examples=["advantages has 17 values, response_ids has 20."])


class UploadedFile(Shape):
    filename: str
    bytes: int
    sha256: str
    encoding: str | None


class UploadProgress(Progress):
    rows: int
    bytes: int
    rows_per_second: float | None


class Receipt(Shape):
    """What was recognised of an upload."""

    id: str
    state: State
    filename: str = Field(examples=["rollouts.jsonl"])
    bytes: int
    sha256: str
    format: str | None = Field(examples=["verl-jsonl"])
    files: list[UploadedFile]
    request: dict[str, Any] = Field(description="The options that were given.")
    created: Time
    duplicate_of: str | None = Field(description="The earlier upload of the same bytes to the same run.")
    counts: UploadCounts
    batches: list[UploadedBatch]
    problems: list[UploadProblem]
    problem_counts: dict[str, int] = Field(description="Code -> how many, also beyond the listed ones.")
    progress: UploadProgress
    error: str | None


class RefusedReceipt(Receipt):
    """Why nothing of the upload stands: problem details and receipt in one."""

    type: str
    title: str
    status: int
    detail: str


#: What whatever reads an upload may answer beside 201.
RECEIVED = responses(
    {200: "The same bytes with the same options were here before.", 202: "Not read yet."}, Receipt
) | responses(
    {409: "It was cancelled, or is in the way of another.", 422: "Nothing to read, or not as it was meant."},
    RefusedReceipt,
)


class JobItem(Shape):
    """An ingest, an estimate or an analysis. `id` is the upload's, the estimate's or the analysis'."""

    kind: Literal["ingest", "estimate", "analysis"]
    id: str
    title: str
    batch: str | None
    state: State
    stage: str
    done: int
    total: int
    unit: Literal["bytes", "rollouts", "steps"]
    attempts: int
    cancel_requested: bool
    error: str | None
    executor: str | None
    created: Time
    started: float | None
    finished: float | None


class JobPage(Shape):
    items: list[JobItem]
    next: str | None
    total: int


class WorkerItem(Shape):
    """`alive`, `silent` (not heard of for too long) or `stopped`."""

    id: str
    host: str
    pid: int
    device: str = Field(examples=["cuda:0"])
    queues: list[str]
    state: Literal["alive", "silent", "stopped"]
    started: Time
    seen: Time


class QueueLength(Shape):
    kind: Literal["ingest", "estimate", "analysis"]
    queued: int
    running: int


class WorkerPage(Shape):
    items: list[WorkerItem]
    queues: list[QueueLength]
    next: str | None
    total: int


_BINARY = {"type": "string", "format": "binary"}
_FORM = {
    "type": "object",
    "required": ["file"],
    "properties": {"file": {"type": "array", "items": _BINARY, "description": "One file or several."}},
}

#: The body of an upload, which is streamed and never parsed by the framework.
UPLOAD_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "application/octet-stream": {"schema": _BINARY},
            "application/x-ndjson": {"schema": {"type": "string"}},
            "multipart/form-data": {"schema": _FORM},
        },
    }
}
