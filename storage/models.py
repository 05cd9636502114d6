"""The tables. One schema for SQLite and PostgreSQL; every constraint has a name that migrations can use.

Words (glossary: docs/glossary.md): a *run* has *batches*, one per step and split; a batch has *prompt groups*
(table `prompt`) of *rollouts*; per-token arrays live in `token_array`, one blob per group, part and field; an
*estimate* is the stored result of one estimator on one batch.

Wide columns stand last in their table: SQLite reads a row from its start and need not touch them for a list.
"""

from typing import Any

from sqlalchemy import BigInteger, ForeignKey, Index, LargeBinary, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from storage.base import Base, batch_key
from storage.service_models import (
    ColumnMapping,
    Dashboard,
    IdempotencyKey,
    Panel,
    Share,
    Tokenizer,
    Transfer,
    Worker,
)
from storage.types import Key, OwnJson, Verbatim

__all__ = [
    "STATES", "Analysis", "Base", "Batch", "ColumnMapping", "Dashboard", "Estimate", "EstimateRollout",
    "IdempotencyKey", "Job", "PackedBatch", "PackedEstimate", "Panel", "Problem", "Prompt", "Rollout", "Run",
    "RunningMoments", "Share", "TokenArray", "Tokenizer", "Transfer", "Upload", "Worker",
]  # fmt: skip
STATES = ("queued", "running", "succeeded", "failed", "cancelled")


class Run(Base):
    """One training run. `name` is unique: uploads that name the same run meet in it. `tokenizer`: the name of
    the one that last decoded its token ids.
    """

    __tablename__ = "run"
    id: Mapped[str] = mapped_column(Key(32), primary_key=True)
    name: Mapped[str] = mapped_column(Key(255), unique=True)
    created: Mapped[float]
    tokenizer: Mapped[str | None] = mapped_column(Key(64))


class Job:
    """Progress and cancellation live on the job's own row (`upload`, `estimate`, `analysis`), written with
    each chunk.

    `done` of `total` counts bytes of an upload, rollouts of an estimate, steps of an analysis. Times are Unix
    seconds. `revision` makes a new workflow id when a finished job has to run again.
    """

    state: Mapped[str] = mapped_column(Key(16), index=True)
    stage: Mapped[str] = mapped_column(Key(32), default="queued")
    done: Mapped[int] = mapped_column(default=0)
    total: Mapped[int] = mapped_column(default=0)
    attempts: Mapped[int] = mapped_column(default=0)
    revision: Mapped[int] = mapped_column(default=0)
    cancel_requested: Mapped[bool] = mapped_column(default=False)
    error: Mapped[str | None] = mapped_column(Verbatim)
    executor: Mapped[str | None] = mapped_column(Key(255))
    created: Mapped[float] = mapped_column(index=True)
    started: Mapped[float | None]
    finished: Mapped[float | None]


class Upload(Job, Base):
    """What was handed over at once: one file, several, or an archive. `request`: the caller's options."""

    __tablename__ = "upload"
    id: Mapped[str] = mapped_column(Key(32), primary_key=True)
    filename: Mapped[str] = mapped_column(Verbatim)
    bytes: Mapped[int]
    sha256: Mapped[str] = mapped_column(Key(64), index=True)
    files: Mapped[list[Any]]  # [{"filename", "bytes", "sha256", "spool", "encoding"}]
    request: Mapped[dict[str, Any]]
    format: Mapped[str | None] = mapped_column(Key(64))
    rows: Mapped[int] = mapped_column(default=0)
    accepted: Mapped[int] = mapped_column(default=0)
    rejected: Mapped[int] = mapped_column(default=0)
    # code -> how many, also beyond the stored ones
    problem_counts: Mapped[dict[str, Any]] = mapped_column(default=dict)
    duplicate_of: Mapped[str | None] = mapped_column(Key(32))
    batches_made: Mapped[int] = mapped_column(default=0)  # how many became ready, deleted ones included


class Problem(Base):
    """One thing to say about a row (or the file, when `row` is null) of an upload."""

    __tablename__ = "problem"
    upload_id: Mapped[str] = mapped_column(ForeignKey("upload.id", ondelete="CASCADE"), primary_key=True)
    seq: Mapped[int] = mapped_column(primary_key=True)
    file: Mapped[str | None] = mapped_column(Verbatim)
    row: Mapped[int | None]
    field: Mapped[str | None] = mapped_column(Verbatim)
    severity: Mapped[str] = mapped_column(Key(8))
    code: Mapped[str] = mapped_column(Key(64))
    message: Mapped[str] = mapped_column(Verbatim)


class Batch(Base):
    """The rollouts of one run, step and split. Visible only when `state` is "ready"; then immutable."""

    __tablename__ = "batch"
    __table_args__ = (Index("ix_batch_run_split_step", "run_id", "split", "step"),)
    id: Mapped[str] = mapped_column(Key(32), primary_key=True)
    run_id: Mapped[str] = mapped_column(ForeignKey("run.id", ondelete="CASCADE"))
    upload_id: Mapped[str] = mapped_column(ForeignKey("upload.id"), index=True)
    step: Mapped[int | None]
    split: Mapped[str | None] = mapped_column(Key(64))
    state: Mapped[str] = mapped_column(Key(16), index=True)  # "ingesting" | "ready"
    format: Mapped[str] = mapped_column(Key(64))
    rollouts: Mapped[int] = mapped_column(default=0)
    groups: Mapped[int] = mapped_column(default=0)
    tokens: Mapped[int] = mapped_column(default=0)
    created: Mapped[float] = mapped_column(index=True)
    # finding code -> severity, for lists
    codes: Mapped[dict[str, Any]] = mapped_column(OwnJson, default=dict)
    # field -> "recorded" | "derived:<rule>" | "absent"
    fields: Mapped[dict[str, Any]] = mapped_column(OwnJson, default=dict)
    header: Mapped[dict[str, Any]] = mapped_column(default=dict)  # batch metadata of the file
    statistics: Mapped[dict[str, Any]] = mapped_column(OwnJson, default=dict)
    findings: Mapped[list[Any]] = mapped_column(OwnJson, default=list)


class Prompt(Base):
    """A prompt group: its text once, and the statistics of its rewards (scored rollouts only, ddof 1)."""

    __tablename__ = "prompt"
    batch_id: Mapped[str] = batch_key()
    group_no: Mapped[int] = mapped_column(primary_key=True)
    group_id: Mapped[str] = mapped_column(Verbatim)
    data_source: Mapped[str | None] = mapped_column(Verbatim)
    size: Mapped[int]
    scored: Mapped[int]
    reward_mean: Mapped[float | None]
    reward_std: Mapped[float | None]
    reward_min: Mapped[float | None]
    reward_max: Mapped[float | None]
    prompt: Mapped[str | None] = mapped_column(Verbatim)
    messages: Mapped[list[Any] | None]
    text_checksum: Mapped[int | None] = mapped_column(BigInteger)


class Rollout(Base):
    """One response. `part`, `slot` say where its tokens are: the slot-th entry of the group's part."""

    __tablename__ = "rollout"
    __table_args__ = (Index("ix_rollout_storage_order", "batch_id", "group_no", "part", "slot"),)
    batch_id: Mapped[str] = batch_key()
    index: Mapped[int] = mapped_column(primary_key=True)  # order in the batch, from 0
    group_no: Mapped[int]
    part: Mapped[int]
    slot: Mapped[int]
    row: Mapped[int]  # row of the file, from 1
    reward: Mapped[float | None]  # null: not scored; non-finite values are in reward_nonfinite
    reward_nonfinite: Mapped[str | None] = mapped_column(Key(16))  # "NaN" | "Infinity" | "-Infinity"
    length: Mapped[
        int | None
    ]  # tokens of the response, masked ones included; null when no token field is there
    valid: Mapped[int | None]  # tokens with response_mask 1; null when no mask is known
    advantage: Mapped[float | None]  # one recorded number for the rollout
    truncated: Mapped[bool | None]
    terminated: Mapped[bool | None]
    sample_index: Mapped[int | None]
    policy_version: Mapped[int | None]
    reward_baseline: Mapped[float | None]
    bootstrap_value: Mapped[float | None]
    segment: Mapped[int | None]
    rank: Mapped[int | None]
    micro_batch: Mapped[int | None]
    digest: Mapped[str] = mapped_column(Key(32))  # of everything recorded: equal rows have equal digests
    data_source: Mapped[str | None] = mapped_column(Verbatim)
    finish_reason: Mapped[str | None] = mapped_column(Verbatim)
    file: Mapped[str | None] = mapped_column(Verbatim)  # which file of the upload, when there are several
    sample_id: Mapped[str | None] = mapped_column(Verbatim)
    rollout_id: Mapped[str | None] = mapped_column(Verbatim)
    reward_components: Mapped[dict[str, Any] | None]
    prompt: Mapped[str | None] = mapped_column(Verbatim)  # only where it differs from the group's
    prompt_messages: Mapped[list[Any] | None]
    response: Mapped[str | None] = mapped_column(Verbatim)
    messages: Mapped[list[Any] | None]
    ground_truth: Mapped[str | None] = mapped_column(Verbatim)
    extra: Mapped[dict[str, Any] | None]
    text_checksum: Mapped[int | None] = mapped_column(BigInteger)  # null: stored by an earlier version


class TokenArray(Base):
    """The values of one per-token field for the rollouts of one part of a group, end to end.

    `lengths` is little-endian int32 per slot, -1 where the rollout has no such field. See storage/arrays.py.
    """

    __tablename__ = "token_array"
    __table_args__ = (Index("ix_token_array_part", "batch_id", "group_no", "part"),)
    batch_id: Mapped[str] = batch_key()
    field: Mapped[str] = mapped_column(Key(96), primary_key=True)  # also "advantages:<estimate id>"
    group_no: Mapped[int] = mapped_column(primary_key=True)
    part: Mapped[int] = mapped_column(primary_key=True)
    codec: Mapped[str] = mapped_column(Key(16))
    dtype: Mapped[str] = mapped_column(Key(8))
    lengths: Mapped[bytes] = mapped_column(LargeBinary)
    checksum: Mapped[int]
    data: Mapped[bytes] = mapped_column(LargeBinary)


class PackedBatch(Base):
    """The light columns of all rollouts of a ready batch in one blob. See storage/packed.py."""

    __tablename__ = "packed_batch"
    batch_id: Mapped[str] = batch_key()
    data: Mapped[bytes] = mapped_column(LargeBinary)


class Estimate(Job, Base):
    """The stored result of one request (estimator, parameters, whitening, precision …) on one batch."""

    __tablename__ = "estimate"
    __table_args__ = (UniqueConstraint("batch_id", "request_hash"),)
    id: Mapped[str] = mapped_column(Key(32), primary_key=True)
    batch_id: Mapped[str] = batch_key(primary_key=False)
    convention: Mapped[str | None] = mapped_column(Key(96))
    estimator: Mapped[str] = mapped_column(Key(96))
    request: Mapped[dict[str, Any]]  # normalised: equal requests are equal here
    request_hash: Mapped[str] = mapped_column(Key(64))
    default: Mapped[bool] = mapped_column(default=False)  # requested by Vantage itself after the ingest
    per_token: Mapped[bool | None]  # token arrays "advantages:<id>" exist; else one number per rollout
    device: Mapped[str | None] = mapped_column(Key(64))
    timing: Mapped[dict[str, Any] | None] = mapped_column(OwnJson)
    summary: Mapped[dict[str, Any] | None] = mapped_column(OwnJson)


class Analysis(Job, Base):
    """The stored answer to one question about a batch.

    `kind`: "reconcile" (which convention or mistake made the recorded advantages) | "sweep" (one estimator
    over a grid of parameters).
    """

    __tablename__ = "analysis"
    __table_args__ = (UniqueConstraint("batch_id", "kind", "request_hash"),)
    id: Mapped[str] = mapped_column(Key(32), primary_key=True)
    batch_id: Mapped[str] = batch_key(primary_key=False)
    kind: Mapped[str] = mapped_column(Key(16))
    request: Mapped[dict[str, Any]]  # normalised: equal requests are equal here
    request_hash: Mapped[str] = mapped_column(Key(64))
    default: Mapped[bool] = mapped_column(default=False)  # requested by Vantage itself after the ingest
    device: Mapped[str | None] = mapped_column(Key(64))
    timing: Mapped[dict[str, Any] | None] = mapped_column(OwnJson)
    result: Mapped[dict[str, Any] | None] = mapped_column(OwnJson)


class EstimateRollout(Base):
    """What an estimate says of one rollout: means over its unmasked tokens, before and after whitening."""

    __tablename__ = "estimate_rollout"
    __table_args__ = ({"sqlite_with_rowid": False},)
    estimate_id: Mapped[str] = mapped_column(ForeignKey("estimate.id", ondelete="CASCADE"), primary_key=True)
    index: Mapped[int] = mapped_column(primary_key=True)
    advantage: Mapped[float | None]
    advantage_raw: Mapped[float | None]
    raw_m2: Mapped[
        float | None
    ]  # Σ(A−mean)² of the raw advantages: with valid and the mean, mergeable moments
    advantage_min: Mapped[float | None]
    advantage_max: Mapped[float | None]
    total_abs: Mapped[float | None]  # Σ|A| over unmasked tokens: the rollout's weight in a token sum


class PackedEstimate(Base):
    """What a finished estimate says of all rollouts, in one blob. See storage/packed.py."""

    __tablename__ = "packed_estimate"
    estimate_id: Mapped[str] = mapped_column(ForeignKey("estimate.id", ondelete="CASCADE"), primary_key=True)
    data: Mapped[bytes] = mapped_column(LargeBinary)


class RunningMoments(Base):
    """Mergeable moments of one batch's raw advantages, for the running whitening scope.

    `key` is the hash of the request without its whitening; `unit` is "token" or "response".
    """

    __tablename__ = "running_moments"
    batch_id: Mapped[str] = batch_key()
    key: Mapped[str] = mapped_column(Key(64), primary_key=True)
    unit: Mapped[str] = mapped_column(Key(16), primary_key=True)
    run_id: Mapped[str] = mapped_column(ForeignKey("run.id", ondelete="CASCADE"), index=True)
    split: Mapped[str | None] = mapped_column(Key(64))
    step: Mapped[int | None]
    count: Mapped[int]
    mean: Mapped[float]
    m2: Mapped[float]
