"""What prompt groups are called in figures: by their ids, or by their numbers where texts are hidden.

A group id may be made of a prompt. This is the only place where figures get one from the file, so a figure
that is drawn with hidden texts has none to leave out.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from sqlalchemy import select

from storage.database import ReadSession
from storage.models import Batch, Prompt

_HIDDEN = "group ids are hidden"


@contextmanager
def hidden_group_ids(session: ReadSession) -> Iterator[None]:
    """Within it, `group_names` gives numbers in place of ids to whoever reads by `session`."""
    session.info[_HIDDEN] = True
    try:
        yield
    finally:
        del session.info[_HIDDEN]


def group_names(session: ReadSession, batch: Batch, numbers: Sequence[int]) -> dict[int, str]:
    """group_no -> what to call it: its group_id, or "group N"."""
    if session.info.get(_HIDDEN):
        return {number: f"group {number}" for number in numbers}
    where = (Prompt.batch_id == batch.id, Prompt.group_no.in_(numbers))
    rows = session.execute(select(Prompt.group_no, Prompt.group_id).where(*where))
    return {row.group_no: row.group_id for row in rows}
