"""Is everything that was stored still what was written? For `vantage check`."""

from collections.abc import Iterator
from contextlib import closing
from typing import Any

from sqlalchemy import func, select

from storage import arrays, codec, packed
from storage.database import BINARY, AnySession
from storage.models import Batch, PackedBatch, PackedEstimate, Prompt, Rollout


def verify(session: AnySession) -> Iterator[str]:
    """One sentence for each damaged array or incomplete batch; none where all is well."""
    yield from _arrays(session)
    yield from _packed(session, PackedBatch.batch_id, PackedBatch.data, "batch")
    yield from _packed(session, PackedEstimate.estimate_id, PackedEstimate.data, "estimate")
    yield from _counts(session)


def _arrays(session: AnySession) -> Iterator[str]:
    sizes = _part_sizes(session)
    with closing(arrays.stream(session)) as rows:
        for row in rows:
            try:
                codec.planes(arrays.encoded_of(row))
            except codec.Damaged as error:
                yield str(arrays.corrupt(row, error))
                continue
            slots, rollouts = len(row.lengths) // 4, sizes.get((row.batch_id, row.group_no, row.part), 0)
            if slots != rollouts:
                wrong = codec.Damaged(f"is for {slots} rollouts, the part has {rollouts}")
                yield str(arrays.corrupt(row, wrong))


def _packed(session: AnySession, key: Any, data: Any, what: str) -> Iterator[str]:
    """The columns that are kept as one."""
    rows = session.execute(select(key, data), execution_options={**BINARY, "yield_per": 16})
    with closing(rows):
        for owner, blob in rows:
            try:
                packed.unpack(blob)
            except codec.Damaged as error:
                yield f"{what} {owner}: what is kept of its rollouts {error}"


def _counts(session: AnySession) -> Iterator[str]:
    rollouts, groups = _per_batch(session, Rollout), _per_batch(session, Prompt)
    batches = session.execute(select(Batch.id, Batch.rollouts, Batch.groups).where(Batch.state == "ready"))
    for batch_id, expected_rollouts, expected_groups in batches:
        found = rollouts.get(batch_id, 0), groups.get(batch_id, 0)
        if found != (expected_rollouts, expected_groups):
            yield (
                f"batch {batch_id}: has {found[0]} rollouts in {found[1]} groups, "
                f"was stored with {expected_rollouts} in {expected_groups}"
            )


def _part_sizes(session: AnySession) -> dict[tuple[str, int, int], int]:
    statement = select(Rollout.batch_id, Rollout.group_no, Rollout.part, func.count())
    rows = session.execute(statement.group_by(Rollout.batch_id, Rollout.group_no, Rollout.part))
    return {(batch, group, part): count for batch, group, part, count in rows}


def _per_batch(session: AnySession, model: Any) -> dict[str, int]:
    rows = session.execute(select(model.batch_id, func.count()).group_by(model.batch_id))
    return {batch: count for batch, count in rows}
