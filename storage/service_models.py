"""The tables beside the data: dashboards and their links, workers, answers already given, what helps to read
files.
"""

from typing import Any

from sqlalchemy import ForeignKey, LargeBinary
from sqlalchemy.orm import Mapped, mapped_column

from storage.base import Base, batch_key
from storage.types import Key, Verbatim


class Dashboard(Base):
    __tablename__ = "dashboard"
    id: Mapped[str] = mapped_column(Key(32), primary_key=True)
    title: Mapped[str] = mapped_column(Verbatim)
    note: Mapped[str] = mapped_column(Verbatim, default="")
    created: Mapped[float]
    updated: Mapped[float]


class Panel(Base):
    """One pinned thing. `kind`: figure | rollout | group | text; `options` freezes its parameters."""

    __tablename__ = "panel"
    id: Mapped[str] = mapped_column(Key(32), primary_key=True)
    dashboard_id: Mapped[str] = mapped_column(ForeignKey("dashboard.id", ondelete="CASCADE"), index=True)
    position: Mapped[int]
    kind: Mapped[str] = mapped_column(Key(16))
    figure: Mapped[str | None] = mapped_column(Key(64))
    batch_id: Mapped[str | None] = mapped_column(Key(32))
    estimate_id: Mapped[str | None] = mapped_column(Key(32))
    options: Mapped[dict[str, Any]] = mapped_column(default=dict)
    caption: Mapped[str] = mapped_column(Verbatim, default="")


class Share(Base):
    """A link to one dashboard. Only the hash of its token is stored."""

    __tablename__ = "share"
    id: Mapped[str] = mapped_column(Key(32), primary_key=True)
    dashboard_id: Mapped[str] = mapped_column(ForeignKey("dashboard.id", ondelete="CASCADE"), index=True)
    token_hash: Mapped[str] = mapped_column(Key(64), unique=True)
    created: Mapped[float]
    expires: Mapped[float]
    withdrawn: Mapped[float | None]
    last_used: Mapped[float | None]
    uses: Mapped[int] = mapped_column(default=0)
    hide_text: Mapped[bool] = mapped_column(default=False)
    snapshot: Mapped[bytes | None] = mapped_column(LargeBinary)  # zstd JSON of the panels as they were


class Worker(Base):
    """A worker process: heartbeat and what it runs on. `reaped`: when its jobs went back to the queue."""

    __tablename__ = "worker"
    executor_id: Mapped[str] = mapped_column(Key(255), primary_key=True)
    host: Mapped[str] = mapped_column(Key(255))
    pid: Mapped[int]
    device: Mapped[str] = mapped_column(Key(64))
    queues: Mapped[list[Any]]
    started: Mapped[float]
    seen: Mapped[float] = mapped_column(index=True)
    stopped: Mapped[float | None]
    reaped: Mapped[float | None]


class IdempotencyKey(Base):
    """The answer that a POST with this key gave, so that a retry gets the same one."""

    __tablename__ = "idempotency_key"
    key: Mapped[str] = mapped_column(Key(255), primary_key=True)
    path: Mapped[str] = mapped_column(Verbatim)
    digest: Mapped[str] = mapped_column(Key(64))  # of the request body
    status: Mapped[int]
    headers: Mapped[dict[str, Any]]
    body: Mapped[bytes] = mapped_column(LargeBinary)
    created: Mapped[float] = mapped_column(index=True)


class Tokenizer(Base):
    """What decodes token ids. `sha256` and `size` are of the file as it was sent; `data` is what decoding
    needs of it, zstd JSON. `vocabulary` and `special` count its entries and its special ones.
    """

    __tablename__ = "tokenizer"
    name: Mapped[str] = mapped_column(Key(64), primary_key=True)
    sha256: Mapped[str] = mapped_column(Key(64))
    size: Mapped[int]
    model: Mapped[str] = mapped_column(Key(32))
    decoder: Mapped[str] = mapped_column(Key(64))
    vocabulary: Mapped[int]
    special: Mapped[int]
    created: Mapped[float]
    data: Mapped[bytes] = mapped_column(LargeBinary)


class Transfer(Base):
    """An upload that comes in pieces, until it is whole: which files, of what size, under which options.

    How much of it is here is read off the files themselves. `key_hash`: SHA-256 of what its sender must know.
    `upload_id`: the upload that it became; whoever completes it again gets the same.
    """

    __tablename__ = "transfer"
    id: Mapped[str] = mapped_column(Key(32), primary_key=True)
    key_hash: Mapped[str] = mapped_column(Key(64))
    bytes: Mapped[int]
    created: Mapped[float] = mapped_column(index=True)
    upload_id: Mapped[str | None] = mapped_column(Key(32))
    request: Mapped[dict[str, Any]]
    files: Mapped[list[Any]]  # [{"filename", "bytes", "encoding"}] in the order in which they are sent


class ColumnMapping(Base):
    """Which column is what in tables with just these columns (`seen`); `shape` is their digest."""

    __tablename__ = "column_mapping"
    shape: Mapped[str] = mapped_column(Key(64), primary_key=True)
    seen: Mapped[list[Any]]
    mapping: Mapped[dict[str, Any]]  # field -> column; "" for a field that no column is
    decimal: Mapped[str | None] = mapped_column(Key(8))
    group_by: Mapped[str | None] = mapped_column(Verbatim)
    created: Mapped[float]
    updated: Mapped[float]


class Unchecked(Base):
    """A check of a batch that could not be done. `check`: a finding's code, or another check's."""

    __tablename__ = "unchecked"
    batch_id: Mapped[str] = batch_key()
    check: Mapped[str] = mapped_column(Key(64), primary_key=True)
    title: Mapped[str] = mapped_column(Verbatim)
