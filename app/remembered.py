"""What earlier uploads taught: the tokenizer of a run, the columns of tables."""

from collections.abc import Mapping, Sequence
from typing import Any

from app.decoding import Decoder
from app.errors import AppError
from app.ingest.mapping import Remembered
from app.intake import Shelf
from app.tasks import Task
from app.vocabulary import NONE, Vocabulary
from storage import mappings, tokenizers
from storage.database import AnySession, WriteSession, read


def tokenizer(session: AnySession, request: Mapping[str, Any], run: str) -> dict[str, Any] | None:
    """The tokenizer that this upload is decoded with: the one asked for, else the one the run remembers."""
    name = request.get("tokenizer")
    if name == NONE:
        return None
    if name is not None:
        return {"name": name, "sha256": request.get("tokenizer_sha256"), "remembered": False}
    name = tokenizers.of_run(session, run)
    found = None if name is None else tokenizers.get(session, name)
    return None if found is None else {"name": name, "sha256": found.sha256, "remembered": True}


def decoder_of(task: Task, chosen: Mapping[str, Any] | None) -> Decoder | None:
    """What decodes with the chosen tokenizer. Raises AppError where it is no longer there."""
    if chosen is None:
        return None
    with read(task.engine) as session:
        data = tokenizers.data(session, chosen["name"], chosen["sha256"])
    if data is None:
        raise AppError(
            f"The tokenizer {chosen['name']!r} was replaced or deleted while this upload waited. "
            "Upload the file again."
        )
    return Decoder(chosen["name"], Vocabulary.load(data), chosen["remembered"])


def columns(task: Task) -> dict[str, Remembered]:
    """Which column was what in the tables of earlier uploads, by their shape."""
    with read(task.engine) as session:
        found = mappings.every(session)
        return {
            shape: Remembered(known.mapping, known.decimal, known.group_by) for shape, known in found.items()
        }


def keep(
    session: WriteSession, request: Mapping[str, Any], shelves: Sequence[Shelf], decoder: Decoder | None
) -> None:
    """Remember for the next upload what this one was told and what proved right."""
    if decoder is not None and decoder.decoded and not decoder.remembered:
        for run in {shelf.run for shelf in shelves}:
            tokenizers.remember(session, run, decoder.name)
    if request.get("columns") or request.get("decimal"):
        for shelf in shelves:
            keep_columns(session, request, shelf.header.get("table"))


def keep_columns(session: WriteSession, request: Mapping[str, Any], table: Any) -> None:
    """The columns of a table as this upload had them, where it was told some of them."""
    if not isinstance(table, dict) or not {"shape", "columns", "mapping"} <= table.keys():
        return
    left_out = {name: "" for name, column in (request.get("columns") or {}).items() if not column}
    mappings.put(
        session, table["shape"], table["columns"], mapping={**left_out, **table["mapping"]},
        decimal=request.get("decimal"), group_by=request.get("group_by"),
    )  # fmt: skip
