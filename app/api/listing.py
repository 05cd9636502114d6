"""What every list has in common: its page, its parameters, and how a wrong cursor or sort is refused."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any, TypeVar

from fastapi import Query
from sqlalchemy.exc import OperationalError, StatementError

from app.errors import BadRequest
from storage.pages import Page

T = TypeVar("T")

MOST_ITEMS = 1000

Limit = Annotated[int, Query(ge=1, le=MOST_ITEMS, description="Most items of one page.")]
Cursor = Annotated[str | None, Query(max_length=4000, description="`next` of the page before this one.")]


def listed(page: Page[T], show: Callable[[T], dict[str, Any]]) -> dict[str, Any]:
    """The page as the API shows it."""
    return {"items": [show(item) for item in page.items], "next": page.next, "total": page.total}


def whole(items: list[Any]) -> dict[str, Any]:
    """A list that is always complete, in the shape of a page."""
    return {"items": items, "next": None, "total": len(items)}


@contextmanager
def asked(cursor: str | None) -> Iterator[None]:
    """Turns the complaint about a sort or a cursor into a refusal. A forged cursor may hold a value that
    only the database refuses."""
    try:
        yield
    except ValueError as error:
        text = str(error)
        raise BadRequest(f"{text[:1].upper()}{text[1:]}.") from error
    except (OverflowError, StatementError) as error:
        if cursor is None or isinstance(error, OperationalError):
            raise
        raise BadRequest("The cursor is damaged. Start again without one.") from error
