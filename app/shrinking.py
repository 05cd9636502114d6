"""The search for a reproducer: from the rollouts that a finding names to the fewest that still show it."""

import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import select

from app.configured import configured
from app.errors import Unprocessable
from app.findings import shards
from app.minimise import Spent, shortest_head, smallest
from app.recorded_rows import Row, cut, length_of, rows_of, without_texts
from app.replay import Replay, lines, replay
from app.settings import Settings
from storage import uploads
from storage.database import AnySession
from storage.models import Batch, Prompt, Rollout, Upload

#: A search ends with what it has after so many tries, or seconds.
MOST_TRIES, MOST_SECONDS = 200, 20.0
#: Up to so many rollouts and tokens a batch is looked at as a whole, where the named rows do not show it.
MOST_ROLLOUTS, MOST_TOKENS = 2048, 1_000_000
#: Groups and rollouts that are tried alone before the search, and rollouts whose ends are tried one by one.
FIRST, FEW = 4, 16
#: What a header says of the layout of the file's rows, which the rows no longer have.
LAYOUT = ("alignment", "provenance", "run", "reproducer")
COUNTS = (*shards.ROLLOUTS, *shards.GROUPS, *shards.GROUP_SIZE)
#: The reader's sentence on an array of another length than the response.
SIZES = re.compile(r"(\w+) has (\d+) values?,")

#: Whether an upload of these rows, under a file name, shows it.
Shows = Callable[[Replay, Mapping[str, Any], Sequence[Row], str], bool]


@dataclass(frozen=True, slots=True)
class Reproducer:
    """`content`: canonical JSONL; `name`: of its file; `tries`: how many batches were looked at."""

    content: bytes
    name: str
    rollouts: int
    tokens: int
    tries: int


@dataclass(frozen=True, slots=True)
class Start:
    """A batch, the rollouts and groups of it that a search begins with, and what it looks for."""

    session: AnySession
    batch: Batch
    rollouts: Sequence[int]
    groups: Sequence[str]
    what: str


@dataclass(slots=True)
class Search:
    place: Replay
    header: dict[str, Any]
    name: str
    looked: Shows
    until: float
    tries: int = 0

    def shows(self, rows: Sequence[Row]) -> bool:
        """Whether these rows still show it. Raises Spent when time or tries are up."""
        if self.tries >= MOST_TRIES or time.monotonic() > self.until:
            raise Spent
        self.tries += 1
        try:
            return bool(rows) and self.looked(self.place, self.header, rows, self.name)
        except ValueError:  # none of them can be read any more
            return False


def shrink(start: Start, settings: Settings, looked: Shows, texts: bool) -> Reproducer:
    """The fewest rollouts and tokens, with their texts if asked for. Raises Unprocessable."""
    with replay(settings) as place:
        until = time.monotonic() + MOST_SECONDS
        search = Search(place, header_of(start), file_name(start), looked, until)
        rows = shown(search, start, texts)
        spare_counts(search, rows, start)
        rows = fewer_tokens(search, fewer_rows(search, start, rows))
    tokens = sum(map(length_of, rows))
    said = search.header | {"reproducer": {"of": start.what, "rollouts": len(rows), "tokens": tokens}}
    return Reproducer(lines(said, rows), search.name, len(rows), tokens, search.tries)


def header_of(start: Start) -> dict[str, Any]:
    """What the batch's header says that still holds, and which fields were derived."""
    batch = start.batch
    kept = {name: value for name, value in batch.header.items() if name not in LAYOUT}
    framework = configured(batch.header, batch.format).framework
    if framework is not None:
        kept.setdefault("framework", framework)
    derived = {name: how for name, how in batch.fields.items() if str(how).startswith("derived:")}
    more = {"provenance": derived} if derived else {}
    return {"schema": "rollout-batch", "version": 1, **kept, "run": "reproducer", **more}


def file_name(start: Start) -> str:
    """Of the file: of missing files, the name is what counts them."""
    if start.what != "missing_shards":
        return f"{start.what}-{start.batch.id}.jsonl"
    upload = start.session.get(Upload, start.batch.upload_id)
    names = start.session.scalars(select(Rollout.file).where(Rollout.batch_id == start.batch.id).limit(1))
    told = next(iter(names), None) or (upload.filename if upload else "")
    stem = told.rpartition("/")[2].removesuffix(".jsonl")
    return f"{re.sub(r'[^A-Za-z0-9._-]+', '_', stem)[:80] or start.what}.jsonl"


def shown(search: Search, start: Start, texts: bool) -> list[Row]:
    """Rows that show it, not yet the fewest: of the named groups, else of the batch. Raises Unprocessable."""
    special = special_ids(start.batch.header)
    for rows in (named_rows(start), every_row(start)):
        bare = rows if texts else without_texts(rows, special)
        if rows and search.shows(bare):
            return bare
        if rows and not texts and search.shows(rows):
            raise Unprocessable(
                f"{start.what} shows only together with the texts of the rollouts. Ask with texts=true."
            )
    raise Unprocessable(
        f"{start.what} depends on more of the batch than can be looked at in a short time, or on the file as "
        "it was uploaded. Share the upload itself."
    )


def special_ids(header: Mapping[str, Any]) -> set[int]:
    """Ids of tokens that a header names: they keep their numbers."""
    found: set[int] = set()
    for name, value in header.items():
        if name.endswith(("token_id", "token_ids")):
            found |= {each for each in (value if isinstance(value, list) else [value]) if type(each) is int}
    return found


def named_rows(start: Start) -> list[Row]:
    """The named rollouts with the rest of their groups; nothing where none are named."""
    of_batch = Rollout.batch_id == start.batch.id
    named = select(Rollout.group_no).where(of_batch, Rollout.index.in_(list(start.rollouts))).distinct()
    groups = select(Prompt.group_no).where(
        Prompt.batch_id == start.batch.id, Prompt.group_id.in_(list(start.groups))
    )
    numbers = {*start.session.scalars(named), *start.session.scalars(groups)}
    members = select(Rollout.index).where(of_batch, Rollout.group_no.in_(numbers)).order_by(Rollout.index)
    return with_lost(start, list(start.session.scalars(members.limit(MOST_ROLLOUTS))))


def every_row(start: Start) -> list[Row]:
    """All rollouts, as far as a search can look at them at once."""
    few = start.batch.rollouts <= MOST_ROLLOUTS and start.batch.tokens <= MOST_TOKENS
    return with_lost(start, list(range(start.batch.rollouts))) if few else []


def with_lost(start: Start, indexes: list[int]) -> list[Row]:
    """The rollouts as rows; where it is about arrays of a wrong length, which are not kept, with arrays of
    that length again: ones for a mask, else zeros."""
    rows = rows_of(start.session, start.batch, indexes)
    if not start.what.endswith("length_mismatch"):
        return rows
    problems = uploads.problems(start.session, start.batch.upload_id, uploads.STORED_PROBLEMS)
    statement = select(Rollout.index, Rollout.file, Rollout.row).where(Rollout.batch_id == start.batch.id)
    place = {(file, row): int(index) for index, file, row in start.session.execute(statement)}
    number = {index: i for i, index in enumerate(sorted(indexes))}
    for problem in problems:
        sizes = SIZES.search(problem.message)
        at = number.get(place.get((problem.file, problem.row or 0), -1))
        if problem.code == "length_mismatch" and sizes is not None and at is not None:
            filler = 1 if sizes[1] == "response_mask" else 0.0
            rows[at].setdefault(sizes[1], [filler] * int(sizes[2]))
    return rows


def spare_counts(search: Search, rows: list[Row], start: Start) -> None:
    """Leave out of the header how many rollouts the whole batch had, where that is not the point."""
    if start.what == "missing_shards" or not any(name in search.header for name in COUNTS):
        return
    whole = search.header
    search.header = {name: value for name, value in whole.items() if name not in COUNTS}
    try:
        if search.shows(rows):
            return
    except Spent:
        pass
    search.header = whole


def fewer_rows(search: Search, start: Start, rows: list[Row]) -> list[Row]:
    """The fewest groups, then the fewest rollouts of them. Groups of one prompt are first kept together."""
    if 1 < len({_prompt(row) for row in rows}) < len({row.get("group_id") for row in rows}):
        rows = fewer_parts(search, start, rows, _prompt)
    rows = fewer_parts(search, start, rows, lambda row: row.get("group_id"))
    if len(rows) > 1:
        rows = alone(rows[:FIRST], search.shows) or smallest(rows, search.shows)
    return rows


def _prompt(row: Row) -> str:
    return repr(row.get("prompt"))


def fewer_parts(search: Search, start: Start, rows: list[Row], key: Callable[[Row], Any]) -> list[Row]:
    """The rows of the fewest keys; those of groups that are named are tried alone first."""
    named = [key(row) for row in rows if row.get("group_id") in start.groups]
    keys = list(dict.fromkeys(map(key, rows)))

    def of(some: Sequence[Any]) -> list[Row]:
        return [row for row in rows if key(row) in some]

    def shows(some: Sequence[Any]) -> bool:
        return search.shows(of(some))

    if len(keys) < 2:
        return rows
    return of(alone(list(dict.fromkeys([*named, *keys]))[:FIRST], shows) or smallest(keys, shows))


def alone(items: Sequence[Any], shows: Callable[[list[Any]], bool]) -> list[Any]:
    """The first item that shows it by itself, as a list; empty for none."""
    try:
        return next(([item] for item in items if shows([item])), [])
    except Spent:
        return []


def fewer_tokens(search: Search, rows: list[Row]) -> list[Row]:
    """The same rollouts with fewer tokens: cut at the end, all alike and then one by one, then inside."""
    longest = max(map(length_of, rows))
    if longest < 2:
        return rows
    kept = shortest_head(longest, lambda n: search.shows([cut(row, range(n)) for row in rows]))
    rows = [cut(row, range(kept)) for row in rows]
    for place in range(len(rows) if len(rows) <= FEW else 0):
        rows = shorter(search, rows, place)
    longest = max(map(length_of, rows))
    positions = smallest(range(longest), lambda some: search.shows([cut(row, some) for row in rows]))
    return [cut(row, positions) for row in rows]


def shorter(search: Search, rows: list[Row], place: int) -> list[Row]:
    """The rows, one of them cut at its end as far as it goes."""

    def with_first(tokens: int) -> list[Row]:
        return [*rows[:place], cut(rows[place], range(tokens)), *rows[place + 1 :]]

    return with_first(shortest_head(length_of(rows[place]), lambda n: search.shows(with_first(n))))
