"""What a file is that no format reads: one sentence, and what to do. Nothing of it is run, imported or
unpickled.
"""

import re
import zipfile
from collections.abc import Callable

from app.ingest import arrow, parquet
from app.ingest.archives import member_names, zip_kind
from app.ingest.looks import looks_like_columns, names
from app.ingest.pickles import MAX_BYTES, culprit, globals_of, torch_pickle
from app.ingest.record import Problem, Source, Unreadable
from app.ingest.refuse_text import explain_text, unknown_columns
from app.settings import Settings

ACCEPTED = (
    "Files that are read: canonical JSONL, Parquet, safetensors and npz, and the dumps of the trainers that "
    "docs/formats.md lists; each also as gzip, zstd, or in a zip or tar."
)
SAVE_TENSORS = (
    'save a dict of tensors instead (`torch.save({"response_ids": …, "response_lengths": …}, path)` or '
    "safetensors.torch.save_file), or rows as JSONL"
)

#: Beginnings of files that are recognised and not read: (bytes, code, sentence).
BEGINNINGS: tuple[tuple[bytes, str, str], ...] = (
    (
        b"ARROW1",
        "arrow",
        "this is an Arrow IPC file that is damaged or has no columns of rollouts (response or response_ids).",
    ),
    (
        b"\xff\xff\xff\xff",
        "arrow",
        "this is an Arrow stream that is damaged or has no columns of rollouts (response or response_ids).",
    ),
    (
        b"\x93NUMPY",
        "npy",
        "this is a single array without a name (.npy); save named arrays with numpy.savez.",
    ),
    (
        b"SQLite format 3\0",
        "sqlite",
        "this is an SQLite database, but none of Trackio's; export its table of rollouts as JSONL.",
    ),
    (
        b"version https://git-lfs",
        "git_lfs",
        "this is a Git LFS pointer, not the file itself; run git lfs pull first.",
    ),
    (b"\x89HDF", "hdf5", "this is an HDF5 file; save the arrays with safetensors or numpy.savez."),
    (b"BZh", "compression", "this is compressed with bzip2; use gzip or zstd."),
    (b"\xfd7zXZ", "compression", "this is compressed with xz; use gzip or zstd."),
    (b"7z\xbc\xaf", "compression", "this is a 7z archive; use zip, gzip or zstd."),
    (b"Rar!", "compression", "this is a RAR archive; use zip, gzip or zstd."),
    (b"%PDF", "not_rollouts", "this is a PDF document, not rollouts."),
    (b"\x7fELF", "not_rollouts", "this is a program, not rollouts."),
    (b"MZ", "not_rollouts", "this is a program, not rollouts."),
    (b"\x89PNG", "not_rollouts", "this is a picture, not rollouts."),
    (b"\xff\xd8\xff", "not_rollouts", "this is a picture, not rollouts."),
    (b"\xff\xfe\0\0", "utf16", "this is UTF-32 text; save it as UTF-8."),
    (b"\xff\xfe", "utf16", "this is UTF-16 text; save it as UTF-8."),
    (b"\xfe\xff", "utf16", "this is UTF-16 text; save it as UTF-8."),
)
#: How protocol 0 begins a dict or a list.
_EMPTY = re.compile(rb"\((?:dp|lp)\d*\n")
#: A name that a pickle may refer to. A table whose first line begins with c reads like such a reference.
_REFERENCE = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+")

Explanation = tuple[str, str]  # code, sentence


def explain(source: Source, settings: Settings) -> Problem:
    """The one problem that says what the file is and what its owner can do."""
    for look in LOOKS:
        if (found := look(source, settings)) is not None:
            code, sentence = found
            return Problem(f"{source.name}: {sentence}", code, "error")
    return Problem(
        f"{source.name}: this is a binary file of unknown kind. {ACCEPTED}", "unknown_format", "error"
    )


def _empty(source: Source, settings: Settings) -> Explanation | None:
    return None if source.head else ("empty", "the file is empty (0 bytes).")


def _beginning(source: Source, settings: Settings) -> Explanation | None:
    if source.head.startswith((arrow.FILE, arrow.STREAM)) and (found := unknown_columns(source, settings)):
        return found
    for begin, code, sentence in BEGINNINGS:
        if source.head.startswith(begin):
            return code, sentence
    return None


def _zip(source: Source, settings: Settings) -> Explanation | None:
    if not source.head.startswith(b"PK") or source.path is None:
        return None
    members = member_names(source.path)
    if members is None:
        return "zip_damaged", "the ZIP archive is damaged or incomplete; copy it again."
    match zip_kind(members):
        case "workbook":
            return (
                "workbook",
                f"this is a spreadsheet workbook; export the rows as JSONL or Parquet. {ACCEPTED}",
            )
        case "torch":
            with zipfile.ZipFile(source.path) as archive:
                return _torch(torch_pickle(archive))
    return "zip_damaged", "the ZIP archive holds no file that can be read."


def _torch(data: bytes | None) -> Explanation:
    found = None if data is None else culprit(globals_of(data))
    if found is None:
        return "torch", f"this is a PyTorch file without fields of rollouts that are known: {SAVE_TENSORS}."
    name, acts = found
    if acts:
        return "pickle", f"this PyTorch file wants to call {name}; refused, nothing of it was run."
    return (
        "pickle",
        f"this file holds a Python object of {name}, which cannot be opened safely: {SAVE_TENSORS}.",
    )


def _pickle(source: Source, settings: Settings) -> Explanation | None:
    if not _is_pickle(source.head):
        return None
    with source.open() as stream:
        found = culprit(globals_of(stream.read(MAX_BYTES)))
    if found is None:
        return "pickle", f"this is a Python pickle without fields of rollouts that are known: {SAVE_TENSORS}."
    name, acts = found
    if acts:
        return "pickle", f"this pickle wants to call {name}; refused, nothing of it was run."
    return (
        "pickle",
        f"this is a pickled Python object of {name}, which cannot be opened safely: {SAVE_TENSORS}.",
    )


def _is_pickle(head: bytes) -> bool:
    """By the mark of protocol 2 and later; older ones have none, but they begin with few opcodes."""
    if head[:1] == b"\x80" and head[1:2] in (b"\x02", b"\x03", b"\x04", b"\x05"):
        return True
    if head[:1] not in (b"c", b"(", b"]", b"}", b")"):
        return False
    return bool(_EMPTY.match(head)) or any(map(_REFERENCE.fullmatch, globals_of(head)[:1]))


def _parquet(source: Source, settings: Settings) -> Explanation | None:
    if not source.head.startswith(parquet.MAGIC):
        return None
    try:
        with parquet.opened(source) as file:
            columns, rows = file.schema_arrow.names, file.metadata.num_rows
    except Unreadable as error:
        return error.code, str(error)
    if rows > settings.max_rows:
        limit = f"at most {settings.max_rows:,} are read at once (VANTAGE_MAX_ROWS)"
        return (
            "too_many_rows",
            f"this Parquet file declares {rows:,} rows with columns {names(columns)}; {limit}.",
        )
    if (known := looks_like_columns(columns)) is not None:
        return "looks_like", f"this looks like {known}, which is not read yet. {ACCEPTED}"
    found = unknown_columns(source, settings)
    return found or ("no_rows", f"this Parquet file has the columns {names(columns)}, but no rows.")


def _text(source: Source, settings: Settings) -> Explanation | None:
    found = explain_text(source, settings)
    return None if found is None else (found[0], found[1].replace("{ACCEPTED}", ACCEPTED))


LOOKS: tuple[Callable[[Source, Settings], Explanation | None], ...] = (
    _empty,
    _beginning,
    _zip,
    _pickle,
    _parquet,
    _text,
)
