"""Batches: written part by part while invisible, then made ready at once and never changed."""

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import delete as delete_from
from sqlalchemy import func, insert, inspect, select, update

from storage import arrays as token_arrays
from storage import groups as prompt_groups
from storage import rollouts as rollout_rows
from storage import runs, text_checksums
from storage.arrays import Values
from storage.database import AnySession, WriteSession
from storage.groups import GroupRow
from storage.ids import new_id
from storage.models import Analysis, Base, Batch, Estimate, PackedBatch, Prompt, Rollout, TokenArray, Upload
from storage.pages import Page, Sort, paginate

INGESTING, READY = "ingesting", "ready"
SPLIT_LENGTH = 64
PLACE = ("batch_id", "group_no", "part", "slot", "text_checksum")
COLUMNS = frozenset(column.key for column in inspect(Rollout).column_attrs if column.key not in PLACE)


class NewPart(NamedTuple):
    """One part of a group, as it is to be stored.

    `prompt`: columns of `Prompt` (`group_id`, `data_source`, `prompt`, `messages`) with the group's first
    part (part 0), else None. `rollouts`: columns of `Rollout` without its place; their order gives the slots.
    `arrays`: field -> one array (or None) per slot; `response_tokens` takes lists of texts.
    """

    batch_id: str
    group_no: int
    part: int
    prompt: Mapping[str, Any] | None
    rollouts: Sequence[Mapping[str, Any]]
    arrays: Mapping[str, Values]


def begin(
    session: WriteSession,
    *,
    run_id: str,
    upload_id: str,
    format: str,
    step: int | None = None,
    split: str | None = None,
    id: str | None = None,
    **columns: Any,
) -> Batch:
    """A batch in state "ingesting": no reader sees it before `finish`."""
    if split is not None and not (0 < len(split) <= SPLIT_LENGTH and split.isprintable()):
        raise ValueError(f"a split's name has 1 to {SPLIT_LENGTH} printable characters")
    columns = {"created": time.time(), **columns, "state": INGESTING}
    batch = Batch(
        id=id or new_id(),
        run_id=run_id,
        upload_id=upload_id,
        format=format,
        step=step,
        split=split,
        **columns,
    )
    session.add(batch)
    session.flush()
    return batch


def add_part(
    session: WriteSession,
    batch_id: str,
    group_no: int,
    part: int,
    prompt: Mapping[str, Any] | None,
    rollouts: Sequence[Mapping[str, Any]],
    arrays: Mapping[str, Values],
) -> None:
    """Store one part of a group: see `NewPart`."""
    add_parts(session, [NewPart(batch_id, group_no, part, prompt, rollouts, arrays)])


def add_parts(session: WriteSession, parts: Sequence[NewPart]) -> None:
    """Store parts of groups; many small ones together cost a tenth of what they cost one by one."""
    prompts: list[dict[str, Any]] = []
    rows: list[dict[str, Any]] = []
    stored: list[dict[str, Any]] = []
    for new in parts:
        _check(new)
        place = {"batch_id": new.batch_id, "group_no": new.group_no}
        if new.prompt is not None:
            counted = prompt_groups.statistics([rollout.get("reward") for rollout in new.rollouts])
            own = place | dict(new.prompt)
            prompts.append(own | counted | {"text_checksum": text_checksums.of_prompt(own)})
        place["part"] = new.part
        rows += [
            {**rollout, **place, "slot": slot, "text_checksum": text_checksums.of_rollout(rollout)}
            for slot, rollout in enumerate(new.rollouts)
        ]
        stored += token_arrays.rows_of(new.batch_id, new.group_no, new.part, new.arrays)
    tables: tuple[tuple[type[Base], list[dict[str, Any]]], ...] = (
        (Prompt, prompts), (Rollout, rows), (TokenArray, stored),
    )  # fmt: skip
    for model, made in tables:
        if made:
            session.connection().execute(insert(model), _of_one_shape(made))


def _of_one_shape(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows with the columns that any of them has, which are few where little is recorded."""
    used = {name for row in rows for name, value in row.items() if value is not None}
    return [{name: row.get(name) for name in used} for row in rows]


def _check(new: NewPart) -> None:
    if (new.part == 0) != (new.prompt is not None):
        raise ValueError("a group's prompt comes with its first part")
    for field, values in new.arrays.items():
        if len(values) != len(new.rollouts):
            raise ValueError(f"{field} has {len(values)} entries for {len(new.rollouts)} rollouts")
    unknown = frozenset().union(*new.rollouts) - COLUMNS
    if unknown:
        raise ValueError(f"not columns of a rollout: {', '.join(sorted(unknown))}")


def finish(
    session: WriteSession,
    batch_id: str,
    *,
    rollouts: int | None = None,
    groups: int | None = None,
    tokens: int | None = None,
    fields: dict[str, Any] | None = None,
    statistics: dict[str, Any] | None = None,
    findings: list[Any] | None = None,
    light: rollout_rows.Columns | None = None,
    **columns: Any,
) -> bool:
    """Make the batch ready. False if it was not ingesting.

    Counts are taken from its rows where not given. `findings` are dicts with at least `code` and `severity`.
    `light`: the light columns of its rollouts, where they were read; they are then kept as one.
    """
    prompt_groups.recount(session, batch_id)
    given = {"rollouts": rollouts, "groups": groups, "tokens": tokens}
    counted = _counts(session, batch_id) | {name: n for name, n in given.items() if n is not None}
    columns |= {"fields": fields or {}, "statistics": statistics or {}, **_findings(findings or [])}
    ingesting = update(Batch).where(Batch.id == batch_id, Batch.state == INGESTING)
    made_ready = ingesting.values(state=READY, **counted, **columns).returning(Batch.upload_id)
    changed = session.execute(made_ready).first()
    if changed is None:
        return False
    if light is not None:
        session.add(PackedBatch(batch_id=batch_id, data=rollout_rows.pack(light)))
    made = update(Upload).where(Upload.id == changed.upload_id)
    session.execute(made.values(batches_made=Upload.batches_made + 1))
    return True


def revise_findings(session: WriteSession, batch_id: str, findings: list[Any]) -> None:
    """Replace the findings of a ready batch: all of it that may change, where a later analysis says more."""
    session.execute(update(Batch).where(Batch.id == batch_id).values(**_findings(findings)))


def _findings(findings: list[Any]) -> dict[str, Any]:
    """The findings as a batch has them: whole, and the severity of each code for lists."""
    return {"findings": findings, "codes": {each["code"]: each["severity"] for each in findings}}


def _counts(session: AnySession, batch_id: str) -> dict[str, int]:
    """What the batch's own rows say."""
    of_rollouts = select(func.count(), func.sum(Rollout.length)).where(Rollout.batch_id == batch_id)
    of_groups = select(func.count()).select_from(Prompt).where(Prompt.batch_id == batch_id)
    rollouts, tokens = session.execute(of_rollouts).one()
    groups = session.execute(of_groups).scalar_one()
    return {"rollouts": rollouts, "groups": groups, "tokens": int(tokens or 0)}


def get(session: AnySession, batch_id: str) -> Batch | None:
    """The batch, if it is ready."""
    found = session.get(Batch, batch_id)
    return found if found is not None and found.state == READY else None


def get_any(session: AnySession, batch_id: str) -> Batch | None:
    """The batch in any state, for whoever is writing it."""
    return session.get(Batch, batch_id)


def page(
    session: AnySession, run_id: str | None = None, limit: int = 50, cursor: str | None = None
) -> Page[Batch]:
    """Ready batches, newest first."""
    where = [Batch.state == READY] + ([] if run_id is None else [Batch.run_id == run_id])
    sort = Sort("-created", Batch.created, Batch.id, True)
    rows, following = paginate(session, select(Batch).where(*where), sort, limit, cursor)
    total = session.execute(select(func.count()).select_from(Batch).where(*where)).scalar_one()
    return Page([row.Batch for row in rows], following, total)


def groups(
    session: AnySession,
    batch_id: str,
    sort: str = "group_no",
    limit: int = 50,
    cursor: str | None = None,
    estimate_id: str | None = None,
) -> Page[GroupRow]:
    """The batch's prompt groups: see `storage.groups.page`."""
    return prompt_groups.page(session, batch_id, sort, limit, cursor, estimate_id)


def group(session: AnySession, batch_id: str, key: int | str) -> Prompt | None:
    """One prompt group by its number (int) or its id (str)."""
    return prompt_groups.get(session, batch_id, key)


def delete(session: WriteSession, batch_id: str) -> bool:
    """Delete a batch with its rollouts, arrays and estimates, and its run if it was the last. False where
    there is none."""
    gone = delete_from(Batch).where(Batch.id == batch_id).returning(Batch.run_id)
    run_id = session.execute(gone).scalar_one_or_none()
    if run_id is not None:
        runs.delete_if_empty(session, [run_id])
    return run_id is not None


def discard_partial(session: WriteSession, upload_id: str) -> int:
    """Delete what an interrupted ingest left unfinished, and runs that only it was in; ready batches stay.
    How many batches were deleted."""
    partial = delete_from(Batch).where(Batch.upload_id == upload_id, Batch.state == INGESTING)
    run_ids = session.execute(partial.returning(Batch.run_id)).scalars().all()
    runs.delete_if_empty(session, sorted(set(run_ids)))
    return len(run_ids)


def stand(session: AnySession) -> str:
    """Another text whenever anything changed that can be drawn: a batch, an estimate or an analysis."""
    batch = select(func.count(), func.max(Batch.created)).where(Batch.state == READY)
    parts: list[tuple[Any, ...]] = [tuple(session.execute(batch).one())]
    for model in (Estimate, Analysis):
        counted = select(func.count(), func.max(model.finished), func.sum(model.revision))
        parts.append(tuple(session.execute(counted).one()))
    return repr(parts)


def all_there(session: AnySession, batch_ids: Iterable[str]) -> bool:
    """Whether none of the batches, in any state, was deleted."""
    wanted = set(batch_ids)
    found = session.execute(select(func.count()).select_from(Batch).where(Batch.id.in_(wanted)))
    return found.scalar_one() == len(wanted)
