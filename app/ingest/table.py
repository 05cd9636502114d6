"""Anything tabular that no other format knows, by its columns: CSV, TSV, JSONL, JSON arrays, Parquet, Arrow.

The caller says which column is which field (`column.<field>=<column>`), or it was said before of a table
with the same columns; the rest is guessed by name and content, and the receipt says so.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial

from app.ingest import canonical, mapping, tabular
from app.ingest.cells import Cells
from app.ingest.json_rows import FLOAT_LISTS, INT_LISTS
from app.ingest.looks import looks_like_columns
from app.ingest.mapping import Asked, Chosen
from app.ingest.notes import Notes
from app.ingest.options import stride
from app.ingest.record import Format, Header, Item, Rollout, Source, Unreadable
from app.ingest.scalars import typed_id
from app.ingest.tabular import Look
from app.settings import Settings

NAME = "table"
NOTHING_ASKED = Asked()


def sniff(source: Source, settings: Settings, asked: Asked = NOTHING_ASKED) -> bool:
    """Whether the file is a table of rollouts: a column is the response, by what was said or by its name."""
    look = tabular.look(source, settings)
    if look is None:
        return False
    if asked.columns or look.shape in asked.remembered:
        return True
    if looks_like_columns(look.columns) is not None:
        return False
    return mapping.has_answer(mapping.choose(look, asked))


def claims(source: Source, settings: Settings, asked: Asked) -> bool:
    """Whether the file is read as a table although another format may know it: because somebody said so."""
    if not asked.columns and not asked.remembered:
        return False
    look = tabular.look(source, settings)
    return look is not None and (bool(asked.columns) or look.shape in asked.remembered)


def read(source: Source, settings: Settings, asked: Asked = NOTHING_ASKED) -> Iterator[Item]:
    look = tabular.look(source, settings)
    if look is None:
        raise Unreadable("this is no table: no columns were found.", mapping.CODE)
    chosen = mapping.choose(look, asked)
    if not mapping.has_answer(chosen):
        raise mapping.no_answer(look, chosen)
    if (comma := mapping.open_comma(look, chosen)) is not None:
        raise mapping.comma_question(look, chosen, comma)
    yield Header(raw={"table": mapping.described(look, chosen)})
    notes = Notes()
    notes.warn(None, None, "columns_mapped", mapping.sentence(look, chosen), "info")
    for doubt in chosen.guess.doubts:
        remedy = "if it is that field all the same, say so with column.<field>=<column>"
        notes.warn(None, None, "column_not_used", f"{doubt}, so it is not used; {remedy}")
    yield from notes.drain()
    yield from _rows(source, settings, look, chosen, asked, notes)
    yield from notes.summary()


def _rows(
    source: Source, settings: Settings, look: Look, chosen: Chosen, asked: Asked, notes: Notes
) -> Iterator[Item]:
    cells = Cells(chosen, look.kind == tabular.CSV)
    groups = _Groups(chosen.group_by)
    for number, fields in tabular.rows(source, look, settings, lists_of(chosen), notes):
        if isinstance(fields, dict):
            item = canonical.rollout(number, cells.fields(number, fields, notes), None, notes)
            if isinstance(item, Rollout):
                _keep_group_column(item, fields, asked.group_by)
                groups.assign(item, fields)
        else:
            item = fields
        yield from notes.drain()
        yield item


def lists_of(chosen: Chosen) -> dict[str, str]:
    """Columns that are lists of numbers: how a row of JSON has them read at once."""
    codes = {name: "i" for name in INT_LISTS} | {name: "d" for name in FLOAT_LISTS}
    return {column: codes[name] for name, column in chosen.fields.items() if name in codes}


def _keep_group_column(rollout: Rollout, fields: Mapping[str, object], group_by: str | None) -> None:
    """`group_by` may name a column that is a field, too."""
    if group_by and group_by in fields and group_by not in rollout.extra and ":" not in group_by:
        rollout.extra[group_by] = fields[group_by]


class _Groups:
    """The rule that was remembered for tables of this shape, where there is one."""

    def __init__(self, rule: str | None) -> None:
        self._rule, self._stride = rule, stride(rule)
        self._seen: Counter[tuple[int | None, str | None]] = Counter()

    def assign(self, rollout: Rollout, fields: Mapping[str, object]) -> None:
        if self._rule is None:
            return
        rollout.group_id = None
        rollout.extra.pop("group_id_type", None)
        if self._stride is not None:
            batch = (rollout.step, rollout.split)
            rollout.group_id = f"rows-{self._seen[batch] // self._stride}"
            self._seen[batch] += 1
        elif self._rule != "prompt" and (found := typed_id(fields.get(self._rule))) is not None:
            rollout.group_id = found[0]
        if rollout.group_id is not None:
            where = self._rule if self._stride is not None else f"column:{self._rule}"
            rollout.derived["group_id"] = f"derived:{where}"


FORMAT = Format(NAME, "Any table, by its columns (CSV, TSV, JSONL, Parquet)", sniff, read, fallback=True)


def bound(formats: tuple[Format, ...], asked: Asked) -> tuple[Format, ...]:
    """The formats, the table knowing what was asked of it."""
    mine = replace(FORMAT, sniff=partial(sniff, asked=asked), read=partial(read, asked=asked))
    return tuple(mine if known.name == NAME else known for known in formats)
