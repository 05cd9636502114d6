"""The files of a request: streamed to disk, recorded as an upload, queued.

The file is the raw body or the form field `file`. Until the upload is recorded, whatever fails leaves no file
behind; from then on the files are the upload's.
"""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Literal, Self

from fastapi import Request
from fastapi.concurrency import run_in_threadpool
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import PydanticCustomError
from sqlalchemy import Engine

from app import uploads
from app.api import multipart
from app.api.idempotency import Claim, claim_of, key_of, known
from app.api.waiting import LONGEST
from app.errors import BadRequest, Unprocessable
from app.ingest import FORMATS
from app.ingest.mapping import check_fields
from app.ingest.options import Options
from app.jobs import Jobs
from app.settings import Settings
from app.uploads import Spooled
from storage import idempotency
from storage.batches import SPLIT_LENGTH
from storage.database import read, write
from storage.runs import NAME_LENGTH

MOST_STEP = 2**53
COLUMN = "column."
MOST_COLUMN = 1000


class UploadOptions(BaseModel):
    """What may be said about how an upload is read."""

    model_config = ConfigDict(extra="allow")

    run: str | None = Field(
        default=None,
        max_length=NAME_LENGTH,
        description="Run it belongs to. Default: the file's own, else its name.",
    )
    step: int | None = Field(
        default=None, ge=-MOST_STEP, le=MOST_STEP, description="Training step; stands above the file's."
    )
    split: str | None = Field(default=None, max_length=SPLIT_LENGTH, description="train, val, …")
    format: str = Field(
        default="auto", max_length=64, description="Name of the format; `auto` looks at the content."
    )
    group_by: str | None = Field(
        default=None, max_length=255, description="`prompt`, `stride:N` or a column of the file."
    )
    duplicates: str | None = Field(
        default=None, description="What becomes of exact copies of a row: `drop` or `keep`."
    )
    tokenizer: str | None = Field(
        default=None,
        max_length=64,
        description="Name of an uploaded tokenizer that decodes token ids; `none`: none, not even the run's.",
    )
    decimal: Literal["point", "comma"] | None = Field(
        default=None, description="How a CSV writes numbers: `1.5` (`point`) or `1,5` (`comma`)."
    )

    @model_validator(mode="after")
    def only_columns_besides(self) -> Self:
        """Whatever else is said is `column.<field>=<column>`."""
        for name, value in (self.model_extra or {}).items():
            if not name.startswith(COLUMN):
                raise PydanticCustomError("extra_forbidden", "There is no parameter {name}.", {"name": name})
            if not isinstance(value, str) or len(value) > MOST_COLUMN:
                raise PydanticCustomError(
                    "column", "{name} has one column, of at most 1,000 characters.", {"name": name}
                )
        return self

    @property
    def columns(self) -> dict[str, str]:
        """Field -> column."""
        said = (self.model_extra or {}).items()
        return {name.removeprefix(COLUMN): str(value) for name, value in said}

    def options(self) -> Options:
        """Checked before a byte is taken. Raises BadRequest, Unprocessable."""
        names = ("auto", *(known.name for known in FORMATS))
        if (self.format or "auto") not in names:
            raise Unprocessable(f"There is no format {self.format!r}; there are {', '.join(names)}.")
        for name, value in (("run", self.run), ("split", self.split)):
            if value is not None and not value.isprintable():
                raise Unprocessable(f"{name} holds characters that cannot be printed. Leave them out.")
        said = self.model_dump(
            include={"step", "run", "split", "group_by", "duplicates", "tokenizer", "decimal"}
        )
        given = {name: value for name, value in said.items() if value not in (None, "")}
        check_fields(self.columns)
        return Options.from_request({**given, "format": self.format or "auto", "columns": self.columns})


class UploadQuery(UploadOptions):
    """What may be said about an upload. A form's fields may say it too; the address stands above them."""

    filename: str | None = Field(
        default=None, max_length=4096, description="Name of the file, where it is the raw body."
    )
    wait: float = Field(
        default=0,
        ge=0,
        le=LONGEST,
        allow_inf_nan=False,
        description="Seconds to wait until the file is read.",
    )


@dataclass
class Taken:
    """The files of a request, on disk."""

    files: list[Spooled] = field(default_factory=list)
    fields: dict[str, str] = field(default_factory=dict)

    @property
    def bytes(self) -> int:
        return sum(file.bytes for file in self.files)


async def take(request: Request, settings: Settings, filename: str) -> Taken:
    """Stream the body to the spool folder; nothing stays there if it fails."""
    taken = Taken()
    kind = request.headers.get("content-type", "")
    encoding = request.headers.get("content-encoding")

    async def spool(name: str, content: AsyncIterator[bytes]) -> None:
        taken.files.append(await uploads.spool(content, name, settings, already=taken.bytes))

    try:
        if kind.lower().startswith("multipart/form-data"):
            if uploads.check_encoding(encoding) is not None:
                raise BadRequest(
                    "A compressed form is not taken: compress the files in it, or send one as raw body."
                )
            taken.fields = await multipart.receive(kind, request.stream(), spool)
        else:
            taken.files.append(await uploads.spool(request.stream(), filename, settings, encoding))
    except BaseException:
        uploads.discard(taken.files, settings)
        raise
    return taken


def merged(query: UploadQuery, fields: dict[str, str]) -> UploadQuery:
    """The query with what the form's fields add. Raises RequestValidationError, as for a query."""
    given = {name: value for name, value in fields.items() if value.strip() or name.startswith(COLUMN)}
    try:
        return UploadQuery.model_validate({**given, **query.model_dump(exclude_unset=True)})
    except ValidationError as error:
        faults = [{**fault, "loc": ("body", *fault["loc"])} for fault in error.errors()]
        raise RequestValidationError(faults) from error


def accept(
    request: Request,
    engine: Engine,
    jobs: Jobs,
    settings: Settings,
    files: list[Spooled],
    options: Options,
) -> tuple[str, bool]:
    """(id, created) of the upload, now recorded and queued; with an Idempotency-Key, those of the first time.

    The files are deleted unless the upload took them; whoever waits for this may be gone by then.
    """
    try:
        claimed = keyed(request, files, options)
        if claimed is not None:
            with read(engine) as session:
                found = known(session, claimed)
                before = None if found is None else (str(found.headers["upload"]), found.status == 201)
            if before is not None:
                uploads.discard(files, settings)
                return before
        upload_id, created = uploads.accept(engine, jobs, settings, files, options)
    except BaseException:
        uploads.discard(files, settings)
        raise
    if claimed is not None:
        keep(engine, claimed, upload_id, created)
    return upload_id, created


def keyed(request: Request, files: list[Spooled], options: Options) -> Claim | None:
    if key_of(request) is None or not files:
        return None
    said = repr((uploads.joint_digest(files), options))
    return claim_of(request, said.encode("utf-8", "replace"))


def keep(engine: Engine, claimed: Claim, upload_id: str, created: bool) -> None:
    with write(engine) as session:
        status, kept = 201 if created else 200, {"upload": upload_id}
        idempotency.remember(session, claimed.key, claimed.path, claimed.digest, status, kept, b"")


def name_of(query: UploadQuery, header: str | None) -> str:
    if query.filename:
        return query.filename
    # Header values arrive as Latin-1; names are sent as UTF-8.
    return header.encode("latin-1", "replace").decode("utf-8", "replace") if header else "upload"


async def receive(
    request: Request, engine: Engine, jobs: Jobs, settings: Settings, query: UploadQuery, filename: str
) -> tuple[str, bool, UploadQuery]:
    """Take the files and queue them: (id, created, the query with what the form added)."""
    query.options()
    taken = await take(request, settings, filename)
    try:
        query = merged(query, taken.fields)
        options = query.options()
    except BaseException:
        uploads.discard(taken.files, settings)
        raise
    called = (request, engine, jobs, settings, taken.files, options)
    upload_id, created = await run_in_threadpool(accept, *called)
    return upload_id, created, query
