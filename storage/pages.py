"""Pages of a list, and the opaque cursors between them.

A cursor holds the sort and the last row's key, so a page starts where the one before it ended even when rows
came in between. Rows without a key (null) come last in either direction; ties are broken by `tie`, ascending.
"""

import base64
import binascii
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from sqlalchemy import ColumnElement, Row, Select, SQLColumnExpression, and_, or_

from storage.database import AnySession

T = TypeVar("T")
Expression = SQLColumnExpression[Any]


class BadCursor(ValueError):
    """The cursor was not made by this list with this sort."""


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """`items`, the cursor of the `next` page (None at the end), and how many rows there are in all."""

    items: list[T]
    next: str | None
    total: int


@dataclass(frozen=True, slots=True)
class Sort:
    """Order by `key` (nulls last), then by the unique `tie`, ascending. `name` goes into the cursor."""

    name: str
    key: Expression
    tie: Expression
    descending: bool = False


def sort_from(text: str, keys: Mapping[str, Expression], tie: Expression) -> Sort:
    """The sort that `text` names: a key of `keys`, with a leading minus for descending. Raises ValueError."""
    name = text.removeprefix("-")
    if name not in keys:
        raise ValueError(
            f"cannot sort by {name!r}; choose one of {', '.join(keys)} (with - in front: descending)"
        )
    return Sort(text, keys[name], tie, text.startswith("-"))


def encode_cursor(name: str, key: Any, tie: Any) -> str:
    text = json.dumps([name, key, tie], separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def decode_cursor(cursor: str, name: str) -> tuple[Any, Any]:
    """The key and tie of the row before the page. Raises BadCursor."""
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        found, key, tie = json.loads(base64.b64decode(padded, altchars=b"-_", validate=True))
    except (ValueError, TypeError, binascii.Error, RecursionError) as error:
        raise BadCursor("the cursor is damaged; start again without one") from error
    if found != name or not all(isinstance(part, int | float | str | None) for part in (key, tie)):
        raise BadCursor("the cursor belongs to another list or sort; start again without one")
    return key, tie


def paginate(
    session: AnySession, statement: Select[Any], sort: Sort, limit: int, cursor: str | None
) -> tuple[Sequence[Row[Any]], str | None]:
    """The rows of one page, with key and tie behind the selected columns, and the next cursor."""
    if limit < 1:
        raise ValueError("limit must be at least 1")
    statement = statement.add_columns(sort.key.label("page_key"), sort.tie.label("page_tie"))
    if cursor is not None:
        statement = statement.where(_after(sort, *decode_cursor(cursor, sort.name)))
    direction = sort.key.desc() if sort.descending else sort.key.asc()
    rows = session.execute(statement.order_by(direction.nulls_last(), sort.tie.asc()).limit(limit + 1)).all()
    if len(rows) <= limit:
        return rows, None
    last = rows[limit - 1]
    return rows[:limit], encode_cursor(sort.name, last.page_key, last.page_tie)


def _after(sort: Sort, key: Any, tie: Any) -> ColumnElement[bool]:
    if key is None:
        return and_(sort.key.is_(None), sort.tie > tie)
    beyond = sort.key < key if sort.descending else sort.key > key
    return or_(beyond, and_(sort.key == key, sort.tie > tie), sort.key.is_(None))
