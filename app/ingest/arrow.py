"""Arrow tables: streams as `datasets.save_to_disk` writes them, and IPC files (Feather).

The two are told apart by how they begin. Columns are read by their canonical names and the usual other ones.
Every batch is validated in full before a value of it is used.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pyarrow as pa

from app.ingest import arrow_sizes, documents, named_rows, names, parquet
from app.ingest.canonical_parquet import without_nulls
from app.ingest.expand import Account, Caps
from app.ingest.notes import Notes
from app.ingest.parquet_limits import pieces, spent_by
from app.ingest.record import About, Format, Header, Item, Rollout, Source, Unreadable
from app.settings import Settings

FILE, STREAM = b"ARROW1", b"\xff\xff\xff\xff"
MEMO = "arrow_columns"
_FAILURES = (pa.ArrowException, OSError, ValueError, KeyError, TypeError, OverflowError, UnicodeDecodeError)
MESSAGES = ("messages", "prompt", "response", "completion")
INFO, STATE = frozenset(("features", "citation", "license")), frozenset(("_data_files", "_fingerprint"))


def columns(source: Source) -> tuple[str, ...] | None:
    """Names of the columns, None where this is no readable Arrow table."""
    if not source.head.startswith((FILE, STREAM)) or source.path is None:
        return None
    if MEMO not in source.memo:
        try:
            with ExitStack() as stack:
                source.memo[MEMO] = tuple(_opened(source, stack).schema.names)
        except Unreadable:
            source.memo[MEMO] = None
    found: tuple[str, ...] | None = source.memo[MEMO]
    return found


def sniff(source: Source, settings: Settings) -> bool:
    found = columns(source)
    return found is not None and named_rows.is_rollouts(found)


def read(source: Source, settings: Settings) -> Iterator[Item]:
    notes = Notes()
    place = names.step(source), names.split(source)
    with ExitStack() as stack:
        table = _opened(source, stack)
        if len(set(table.schema.names)) != len(table.schema.names):
            raise Unreadable("a column is there twice; rename one of them.", "repeated_column")
        yield Header()
        for number, fields in _rows(table, source, settings):
            item = named_rows.rollout(number, fields, notes)
            if isinstance(item, Rollout):
                names.fill(item, *place)
            yield from notes.drain()
            yield item
    yield from notes.summary()


def rows(source: Source, settings: Settings) -> Iterator[tuple[int, dict[str, Any]]]:
    """Each row's number from 1 and its fields that are not null. Raises Unreadable, TooLarge."""
    with ExitStack() as stack:
        yield from _rows(_opened(source, stack), source, settings)


def _opened(source: Source, stack: ExitStack) -> Any:
    try:
        mapped = stack.enter_context(pa.memory_map(str(source.path)))
        if source.head.startswith(FILE):
            return stack.enter_context(pa.ipc.open_file(mapped))
        return stack.enter_context(pa.ipc.open_stream(mapped))
    except _FAILURES:
        raise Unreadable(
            "the Arrow table is damaged or incomplete; copy it again.", "arrow_damaged"
        ) from None


def _check_sizes(source: Source, settings: Settings) -> None:
    """Hold what compressed parts declare against the limits. Raises TooLarge."""
    size = source.path.stat().st_size if source.path is not None else 0
    account = Caps(settings).account(source.name, size)
    try:
        with pa.memory_map(str(source.path)) as mapped:
            for total in arrow_sizes.declared(mapped, source.head.startswith(FILE)):
                account.reach(total, size)
    except _FAILURES:
        pass  # damaged further on: said where the rows break off


def _batches(table: Any) -> Iterator[Any]:
    if isinstance(table, pa.RecordBatchFileReader):
        for index in range(table.num_record_batches):
            yield table.get_batch(index)
    else:
        yield from table


def _rows(table: Any, source: Source, settings: Settings) -> Iterator[tuple[int, dict[str, Any]]]:
    size = source.path.stat().st_size if source.path is not None else 0
    _check_sizes(source, settings)
    account = Caps(settings).account(source.name, size)
    number = spent = 0
    batches = _batches(table)
    while True:
        try:
            batch = next(batches, None)
            if batch is None:
                return
            batch.validate(full=True)
            counted = list(pieces(batch))
        except _FAILURES as error:
            raise Unreadable(_sentence(number, error), "arrow_damaged") from None
        for part in _parts(counted, spent, account, size):
            try:
                cells = parquet.cells(part)
            except _FAILURES as error:
                raise Unreadable(_sentence(number, error), "arrow_damaged") from None
            for index in range(part.num_rows):
                number += 1
                row = {name: values[index] for name, values in cells if values[index] is not None}
                yield number, _plain(row)
        spent += sum(spent_by(piece, sizes) for piece, sizes in counted)
        source.report(min(size, spent))


def _parts(counted: list[tuple[Any, list[int]]], spent: int, account: Account, size: int) -> Iterator[Any]:
    """Pieces of a batch in parts of so many rows that their values fit into memory as objects. Each piece is
    counted, after the `spent` before, ahead of spelling its texts out. Raises TooLarge."""
    for piece, sizes in counted:
        spent += spent_by(piece, sizes)
        account.reach(spent, size)
        per_row = max(1, piece.nbytes // max(1, piece.num_rows))
        count = max(1, min(parquet.MAX_BATCH_ROWS, parquet.NUMBER_BYTES // per_row))
        for start in range(0, piece.num_rows, count):
            yield piece.slice(start, count)


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    for name in MESSAGES:
        if isinstance(row.get(name), list):
            row[name] = [without_nulls(item) for item in row[name]]
    return row


def _sentence(number: int, error: Exception) -> str:
    reason = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
    return f"the Arrow data is damaged after row {number} ({reason}); rows before it stand. Copy it again."


def sniff_info(source: Source, settings: Settings) -> bool:
    found = set(documents.keys(source))
    return bool(found >= INFO or found >= STATE) and documents.is_document(source)


def read_info(source: Source, settings: Settings) -> Iterator[Item]:
    """The names of the data files, and which part of the dataset they are."""
    header = Header()
    for member in documents.members(source, settings):
        if member.key == "_data_files":
            held = documents.value(member, settings)
            found = (
                [item.get("filename") for item in held if isinstance(item, dict)]
                if isinstance(held, list)
                else []
            )
            header.expects = tuple(name for name in found if isinstance(name, str))
        elif member.key in ("_split", "dataset_name", "config_name", "description"):
            value = documents.value(member, settings)
            name = "dataset_split" if member.key == "_split" else member.key
            header.raw |= {name: value} if value else {}
    yield header


ABOUT = About(
    setting="`Dataset.save_to_disk(folder)` of your own rows; `feather.write_feather`",
    files="`data-00000-of-00001.arrow` (a stream), `*.feather`, `*.arrow`",
    recorded=(),
    sometimes=(
        "group_id", "sample_index", "prompt", "prompt_messages", "messages", "response", "prompt_ids",
        "response_ids", "response_mask", "advantages", "advantage", "returns", "values", "reward", "step",
        "split", "rollout_log_probs", "old_log_probs", "ref_log_probs", "ground_truth", "data_source",
        "reward_components", "sample_id",
    ),
    derived={
        "prompt": "messages", "response": "messages", "step": "folder name", "split": "folder name",
        "group_id": "identical prompts, where no column has it",
    },
)  # fmt: skip
FORMAT = Format("arrow", "Arrow table (datasets.save_to_disk, Feather)", sniff, read, about=ABOUT)
INFO_FORMAT = Format(
    "datasets-metadata", "metadata of a saved dataset", sniff_info, read_info, companion=True, of=("arrow",)
)  # fmt: skip
