"""How the advantages of finished estimates spread, step by step of a run.

A finished estimate never changes (one that is computed anew finishes anew), so what was read lately is kept.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import select

from storage.database import ReadSession
from storage.kept import Kept
from storage.models import Batch, Estimate

Key = tuple[str, float | None]  # id of an estimate, when it finished

#: Spreads of so many estimates are kept, about 1 KB each; missing ones are read so many at a time.
MOST_KEPT, MOST_ASKED = 4096, 400
_KEPT: Kept[Key, "Spread"] = Kept(MOST_KEPT)


@dataclass(frozen=True, slots=True)
class Spread:
    """How the advantages of one finished estimate spread: what its summary says of all of them together.

    over       "tokens" | "rollouts"
    quantiles  as the summary names them, "0.05" …; empty where there are none
    """

    batch_id: str
    convention: str
    over: str
    count: int
    mean: float | None
    quantiles: dict[str, float]


def of_run(session: ReadSession, run_id: str, batch_ids: Sequence[str]) -> list[Spread]:
    """Of every finished estimate of these batches of a run by a convention; of one convention and batch, the
    one to prefer is last."""
    statement = (
        select(Estimate.id, Estimate.finished, Estimate.batch_id)
        .join(Batch, Batch.id == Estimate.batch_id)
        .where(Batch.run_id == run_id, Batch.state == "ready", Estimate.state == "succeeded")
        .where(Estimate.convention.is_not(None))
        .order_by(Estimate.default, Estimate.created.desc(), Estimate.id)
    )
    wanted = set(batch_ids)
    keys = [(row.id, row.finished) for row in session.execute(statement) if row.batch_id in wanted]
    found = _KEPT.among(keys)
    new = _read(session, [key for key in keys if key not in found])
    _KEPT.keep(new)
    found |= new
    return [found[key] for key in keys]


def _read(session: ReadSession, keys: Sequence[Key]) -> dict[Key, Spread]:
    found = {}
    columns = (Estimate.id, Estimate.batch_id, Estimate.convention, Estimate.summary)
    for start in range(0, len(keys), MOST_ASKED):
        finished = dict(keys[start : start + MOST_ASKED])
        for id, batch_id, name, summary in session.execute(select(*columns).where(Estimate.id.in_(finished))):
            said = summary or {}
            found[id, finished[id]] = Spread(
                batch_id=batch_id,
                convention=name or "",
                over=said.get("over", ""),
                count=said.get("count", 0),
                mean=said.get("mean"),
                quantiles=said.get("quantiles") or {},
            )
    return found
