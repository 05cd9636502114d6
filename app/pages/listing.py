"""The list of a batch's rollouts as a page shows it: searched, narrowed, sorted, a screen at a time."""

from dataclasses import dataclass

from app.errors import BadRequest
from app.figures.chosen import Chosen
from storage import rollouts
from storage.database import ReadSession
from storage.models import Batch
from storage.pages import BadCursor
from storage.rollouts import Filter, RolloutRow

LIMIT = 20
#: URL name -> words. A minus in front: the larger first.
ORDERS = {
    "index": "order of the file",
    "-reward": "highest reward",
    "reward": "lowest reward",
    "-length": "longest",
    "length": "shortest",
    "-advantage": "strongest push up",
    "advantage": "strongest push down",
}


@dataclass(frozen=True, slots=True)
class Listing:
    rows: tuple[RolloutRow, ...]
    total: int
    next: str | None
    order: str
    orders: tuple[tuple[str, str], ...]
    q: str
    task: str
    tasks: tuple[str, ...]
    narrowed: bool


@dataclass(frozen=True, slots=True)
class Asked:
    """What the URL says of the list."""

    order: str | None = None
    q: str | None = None
    task: str | None = None
    cursor: str | None = None


def listing(session: ReadSession, batch: Batch, chosen: Chosen, asked: Asked) -> Listing:
    """Raises BadRequest for a damaged cursor."""
    order = asked.order if asked.order in ORDERS else "index"
    estimate = None if chosen.estimate is None else chosen.estimate.id
    narrow = Filter(data_source=asked.task or None)
    try:
        found = rollouts.page(
            session, batch.id, estimate, order, narrow, asked.q or None, LIMIT, asked.cursor
        )
    except BadCursor as error:
        raise BadRequest(f"This page of the list is not there: {error}.") from error
    sources = batch.statistics.get("data_sources") or []
    return Listing(
        rows=tuple(found.items),
        total=found.total,
        next=found.next,
        order=order,
        orders=tuple(ORDERS.items()),
        q=asked.q or "",
        task=asked.task or "",
        tasks=tuple(source["data_source"] for source in sources),
        narrowed=bool(asked.q or asked.task),
    )
