"""Is everything that was stored still what was written? Arrays, columns and texts. For `vantage check`."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import func, select

from storage import arrays, codec, estimates, packed, rollouts, text_checksums
from storage.database import BINARY, AnySession
from storage.models import Batch, PackedBatch, PackedEstimate, Prompt, Rollout

ReadColumns = Callable[[AnySession, str], Mapping[str, NDArray[Any]]]


def verify(session: AnySession) -> Iterator[str]:
    """One sentence for each damaged array or incomplete batch; none where all is well."""
    yield from _arrays(session)
    yield from _texts(session)
    yield from _columns(session, PackedBatch.batch_id, PackedBatch.data, "batch", _of_batch)
    yield from _columns(
        session, PackedEstimate.estimate_id, PackedEstimate.data, "estimate", estimates.read_columns
    )
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


def _columns(session: AnySession, key: Any, data: Any, what: str, read: ReadColumns) -> Iterator[str]:
    """The columns that are kept as one, against those of the rows."""
    for owner in session.scalars(select(key)).all():
        blob = session.execute(select(data).where(key == owner), execution_options=BINARY).scalar_one()
        try:
            kept = packed.unpack(blob)
        except codec.Damaged as error:
            yield f"{what} {owner}: what is kept of its rollouts {error}"
            continue
        rows = {} if kept is None else read(session, owner)
        for name in sorted(rows.keys() & (kept or {}).keys()):
            if kept is not None and not _same(rows[name], kept[name]):
                yield f"{what} {owner}: the column {name} of its rollouts is not what was written"


def _of_batch(session: AnySession, batch_id: str) -> dict[str, NDArray[Any]]:
    return rollouts.flat(rollouts.read_columns(session, batch_id))


def _same(first: NDArray[Any], second: NDArray[Any]) -> bool:
    if first.shape != second.shape:
        return False
    if first.dtype.kind == second.dtype.kind == "f":
        # A row has null where a number is not finite.
        first, second = np.where(np.isfinite(first), first, 0.0), np.where(np.isfinite(second), second, 0.0)
    return np.array_equal(first, second)


def _texts(session: AnySession) -> Iterator[str]:
    """The texts of rollouts and prompt groups against their checksums, where they have one."""
    for model, place, names, checksum in (
        (Rollout, Rollout.index, text_checksums.OF_ROLLOUT, text_checksums.of_rollout),
        (Prompt, Prompt.group_no, text_checksums.OF_PROMPT, text_checksums.of_prompt),
    ):
        what = "rollout" if model is Rollout else "prompt group"
        columns = [getattr(model, name) for name in names]
        found = select(model.batch_id, place, model.text_checksum, *columns)
        with closing(session.execute(found, execution_options={"yield_per": 256})) as rows:
            for batch_id, number, written, *texts in rows:
                if written is not None and checksum(dict(zip(names, texts, strict=True))) != written:
                    yield f"batch {batch_id}, {what} {number}: a text is not what was written"


def _counts(session: AnySession) -> Iterator[str]:
    stored, groups = _per_batch(session, Rollout), _per_batch(session, Prompt)
    batches = session.execute(select(Batch.id, Batch.rollouts, Batch.groups).where(Batch.state == "ready"))
    for batch_id, expected_rollouts, expected_groups in batches:
        found = stored.get(batch_id, 0), groups.get(batch_id, 0)
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
