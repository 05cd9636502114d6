"""What the columns of an upload's table are taken for, and its first rows: what a person needs to say better.

Read from the spooled file, which is kept for some days; nothing of it is stored here.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Any

from app.errors import AppError, Conflict, NotFound
from app.ingest import mapping, tabular
from app.ingest.guesses import FIELDS, fits, kind_of
from app.ingest.mapping import Asked, Chosen, Remembered
from app.ingest.options import Options
from app.ingest.record import File, Source, Unreadable
from app.ingest.sources import unwrap
from app.ingest.tabular import Look
from app.settings import Settings
from storage import mappings, uploads
from storage.database import AnySession
from storage.models import Upload

PREVIEW = 5
MOST_LOOKED_AT = 50
CELL = 300


@dataclass(frozen=True, slots=True)
class Column:
    """`holds` in a word ("numbers", "texts" …); `field`: what it is taken for, None for nothing."""

    name: str
    holds: str
    field: str | None
    origin: str | None
    cells: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """The first table of an upload. `question`: what has to be said before it can be read, None if nothing.
    `fields`: field -> column; `guessed`: fields that would be guessed, were nothing said.
    `missing`: principal fields that no column is, with what that costs. `decimal`, `group_by`: as asked or
    remembered."""

    file: str
    written: str
    shape: str
    remembered: bool
    columns: tuple[Column, ...]
    fields: dict[str, str]
    guessed: tuple[str, ...]
    doubts: tuple[str, ...]
    missing: tuple[tuple[str, str], ...]
    question: str | None
    decimal: str | None
    group_by: str | None


def table_of(session: AnySession, upload_id: str, settings: Settings) -> Table:
    """The first table of the upload. Raises NotFound, and Conflict where the file is gone."""
    upload = uploads.get(session, upload_id)
    if upload is None:
        raise NotFound(f"There is no upload with the id {upload_id!r}.")
    found = first_table(upload, settings)
    if found is None:
        raise NotFound(
            "No file of this upload is a table (CSV, TSV, rows of JSON, Parquet), so it has no columns to "
            "choose from."
        )
    options = Options.from_request(upload.request)
    known = mappings.get(session, found[1].shape)
    remembered = (
        {} if known is None
        else {known.shape: Remembered(known.mapping, known.decimal, known.group_by)}
    )  # fmt: skip
    asked = Asked(options.columns, options.decimal, options.group_by, remembered)
    return described(found[0], found[1], asked, known is not None)


def first_table(upload: Upload, settings: Settings) -> tuple[str, Look] | None:
    """Name and look of the first file that is a table, archives undone."""
    for file in upload.files[:MOST_LOOKED_AT]:
        path = settings.spool_dir / file["spool"]
        if not path.is_file():
            raise Conflict(
                "The uploaded file is no longer kept (VANTAGE_SPOOL_DAYS), so its columns cannot be shown. "
                "Upload it again."
            )
        try:
            for source in islice(unwrap(File(path, file["filename"]), settings), MOST_LOOKED_AT):
                if isinstance(source, Source) and (look := tabular.look(source, settings)) is not None:
                    return source.trail, look
        except (AppError, Unreadable):
            continue
    return None


def described(file: str, look: Look, asked: Asked, known: bool) -> Table:
    try:
        chosen = mapping.choose(look, asked)
    except Unreadable:  # a column that is not there was asked for: begin anew
        chosen = mapping.choose(look, Asked(remembered=asked.remembered))
    by_column = {column: field for field, column in chosen.fields.items()}
    columns = tuple(
        Column(
            name,
            kind_of(row.get(name) for row in look.rows),
            by_column.get(name),
            chosen.origin.get(by_column.get(name, "")),
            tuple(cell(row.get(name)) for row in look.rows[:PREVIEW]),
        )
        for name in look.columns
    )
    missed = tuple((name, cost) for name, cost in mapping.MISSED.items() if name not in chosen.fields)
    return Table(
        file, look.written, look.shape, known, columns, chosen.fields, tuple(chosen.guess.fields),
        chosen.guess.doubts, missed,
        question_of(look, chosen), chosen.decimal, asked.group_by or chosen.group_by,
    )  # fmt: skip


def question_of(look: Look, chosen: Chosen) -> str | None:
    """What is open: which column is the response, or whether commas are decimal commas."""
    if not mapping.has_answer(chosen):
        return "Which column is the response?"
    comma = mapping.open_comma(look, chosen)
    return None if comma is None else f"{comma[0]} holds {cell(comma[1])!r}: is the comma a decimal comma?"


def cell(value: Any) -> str:
    """A value as a person sees it in the preview, cut where it is long."""
    if value is None:
        return ""
    text = value if isinstance(value, str) else _short(value)
    return text if len(text) <= CELL else f"{text[:CELL]}…"


def _short(value: Any) -> str:
    if hasattr(value, "tolist"):
        value = value[:40].tolist() if getattr(value, "ndim", 0) else value.item()
    if isinstance(value, list):
        value = value[:40]
    return str(value)


def choices(table: Table) -> list[tuple[str, list[tuple[str, bool]]]]:
    """Every field with the columns that hold what it takes first: (column, whether it fits)."""
    found = []
    for field in FIELDS:
        pairs = [(column.name, fits(field, column.holds)) for column in table.columns]
        found.append((field, sorted(pairs, key=lambda pair: not pair[1])))
    return found


def as_json(table: Table) -> Mapping[str, Any]:
    """The table as the API shows it."""
    return {**asdict(table), "missing": [{"field": name, "cost": cost} for name, cost in table.missing]}
