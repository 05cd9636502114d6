"""`/uploads/{id}/columns`: which column of the table is what, its first rows, and reading it again so."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from app import mapping_view, uploads
from app.deps import Reader, SettingsDep
from app.mapping_view import Table
from app.pages.page import Page
from app.templating import Crumb
from storage import tokenizers

#: Fields that nearly every table has; the others are folded.
PRINCIPAL = (
    "response", "prompt", "reward", "group_id", "step", "split", "data_source", "ground_truth", "advantage",
    "finish_reason",
)  # fmt: skip
SAYS = {
    "response": "the model's text",
    "prompt": "what it was asked",
    "reward": "one number per response",
    "group_id": "rollouts compared with each other",
    "step": "training step",
    "split": "train, val, …",
    "data_source": "the task",
    "ground_truth": "the right answer",
    "advantage": "one number per response, as recorded",
    "finish_reason": "why it ended",
}


@dataclass(frozen=True, slots=True)
class Choice:
    """A column that the field can be; `fits`: it holds what the field takes."""

    column: str
    fits: bool


@dataclass(frozen=True, slots=True)
class FieldLine:
    name: str
    says: str
    chosen: str
    origin: str | None
    choices: tuple[Choice, ...]


@dataclass(frozen=True, slots=True)
class ColumnsPage:
    """`rule` and `stride`: the group rule as asked or remembered. `batches`: how many the reading made."""

    title: str
    crumbs: tuple[Crumb, ...]
    upload_id: str
    filename: str
    state: str
    error: str | None
    table: Table
    principal: tuple[FieldLine, ...]
    others: tuple[FieldLine, ...]
    rule: str
    stride: str
    commas: bool
    batches: int
    tokenizers: tuple[str, ...]
    tokenizer: str


def build(session: Reader, settings: SettingsDep, upload_id: str) -> ColumnsPage:
    receipt = uploads.receipt(session, upload_id, 0)
    table = mapping_view.table_of(session, upload_id, settings)
    lines = {line.name: line for line in field_lines(table)}
    rule = table.group_by or ""
    stride = rule.removeprefix("stride:") if rule.startswith("stride:") else ""
    return ColumnsPage(
        title="Columns",
        crumbs=(Crumb("Runs", "/"), Crumb("Upload", f"/uploads/{upload_id}"), Crumb("Columns")),
        upload_id=upload_id,
        filename=receipt["filename"],
        state=receipt["state"],
        error=receipt["error"],
        table=table,
        principal=tuple(lines[name] for name in PRINCIPAL),
        others=tuple(line for name, line in lines.items() if name not in PRINCIPAL),
        rule="stride" if stride else rule,
        stride=stride,
        commas=table.written.startswith("a CSV"),
        batches=len(receipt["batches"]),
        tokenizers=tuple(found.name for found in tokenizers.page(session, 100).items),
        tokenizer=str(receipt["request"].get("tokenizer") or ""),
    )


def field_lines(table: Table) -> list[FieldLine]:
    origins = {column.field: column.origin for column in table.columns if column.field}
    return [
        FieldLine(
            name, SAYS.get(name, ""), table.fields.get(name, ""), origins.get(name),
            tuple(Choice(column, fits) for column, fits in choices),
        )
        for name, choices in mapping_view.choices(table)
    ]  # fmt: skip


def asked(fields: list[tuple[str, str]], table: Mapping[str, Any]) -> dict[str, Any]:
    """The options that the form says. Fields that no column is are said only where one would be guessed."""
    given = dict(fields)
    columns = {
        name.removeprefix("column."): value
        for name, value in fields
        if name.startswith("column.") and (value or name.removeprefix("column.") in table["guessed"])
    }
    rule = given.get("group_by", "")
    if rule == "stride":
        rule = f"stride:{given.get('stride', '').strip()}"
    elif rule.startswith("column:"):
        rule = rule.removeprefix("column:")
    return {
        "columns": columns,
        "group_by": rule or None,
        "decimal": given.get("decimal") or None,
        "tokenizer": given.get("tokenizer") or None,
        "run": given.get("run", "").strip() or None,
        "format": "table",
    }


PAGE = Page("/uploads/{upload_id}/columns", "pages/columns.html", ColumnsPage, build, "runs")
