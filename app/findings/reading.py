"""Reads the `View` of a batch: light columns, then its token arrays once, all fields of a part together."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Text, cast, func, or_, select

from app.ahead import ahead
from app.attempts import Attempts
from app.findings import token_facts
from app.findings.longer import longer_values
from app.findings.part import Part
from app.findings.parts import decoded, read_parts
from app.findings.prompts import read_prompts
from app.findings.view import Floats, Ints, Said, TokenFacts, View, groups_exist
from storage import arrays, batches, rollouts, uploads
from storage.database import AnySession
from storage.models import Batch, Problem, Prompt, Rollout, Upload

#: Finish reasons that mean "cut off by the length limit".
CUT = ("length", "max_tokens", "truncated")


@dataclass(frozen=True, slots=True)
class Observer:
    """`begin(view)` gives a state before the tokens are read, `observe(part, state)` adds each part to it.
    `title`: of the check."""

    title: str
    begin: Callable[[View], Any]
    observe: Callable[[Part, Any], None]


def read_view(
    session: AnySession,
    batch_id: str,
    fields: dict[str, Any] | None = None,
    header: dict[str, Any] | None = None,
    deep: bool = True,
    observers: Mapping[str, Observer] | None = None,
    columns: rollouts.Columns | None = None,
    attempts: Attempts | None = None,
) -> View:
    """The view of a batch in any state. `fields` and `header` replace the batch's own, which a batch that is
    being written does not have yet. Not `deep`: without what only texts and token arrays tell, and without
    the `observers`, whose facts are in `view.facts` under their names. `columns`: the batch's, where they are
    read already. `attempts` learns which observers raised. Raises Corrupt."""
    batch = batches.get_any(session, batch_id)
    columns = rollouts.columns(session, batch_id) if columns is None else columns
    known = {str(name): str(how) for name, how in (fields or (batch.fields if batch else {})).items()}
    own = dict(header or (batch.header if batch else {}))
    view = _light(session, batch_id, columns, known, own)
    view.split = batch.split if batch else None
    if deep:
        _deepen(session, batch_id, batch, view)
        _observe(session, batch_id, columns, view, observers or {}, attempts)
    return view


def _light(
    session: AnySession,
    batch_id: str,
    columns: rollouts.Columns,
    known: dict[str, str],
    header: dict[str, Any],
) -> View:
    """The view without what only texts and token arrays tell."""
    group, group_ids = _groups(session, batch_id, columns.group_no)
    sources, source = _sources(columns.data_source)
    no = np.zeros(columns.rollouts, dtype=bool)
    return View(
        index=columns.index,
        group=group,
        group_ids=group_ids,
        reward=_finite(columns.reward),
        nonfinite=columns.reward_nonfinite,
        scalars={},
        length=columns.length,
        valid=columns.valid,
        source=source,
        sources=sources,
        advantage=_finite(columns.advantage),
        digest=columns.digest,
        blank=no,
        texts=no,
        characters=no.astype(np.int64),
        truncated=_truncated(columns),
        grouped=groups_exist(known.get("group_id", "recorded"), columns.group_no),
        fields=known,
        header=header,
        tokens=TokenFacts(),
        columns=columns,
    )


def _deepen(session: AnySession, batch_id: str, batch: Batch | None, view: View) -> None:
    columns = view.columns
    view.scalars = _scalars(session, batch_id, columns.index)
    view.prompts = read_prompts(session, batch_id, columns.index, columns.group_no)
    if view.fields.get("values") == "recorded":
        view.longer_values = longer_values(session, batch_id, columns)
    view.characters, view.texts, view.blank = _texts(session, batch_id, columns.index)
    if batch is not None:
        view.problems = _problems(session, batch_id, batch.upload_id, columns)
        view.files, view.alone = _origin(session, batch_id, batch.upload_id)


def _finite(values: Floats) -> Floats:
    return np.where(np.isfinite(values), values, np.nan)


def _groups(session: AnySession, batch_id: str, group_no: Ints) -> tuple[Ints, list[str]]:
    numbers, dense = np.unique(group_no, return_inverse=True)
    rows = session.execute(select(Prompt.group_no, Prompt.group_id).where(Prompt.batch_id == batch_id))
    names: dict[int, str] = {row.group_no: row.group_id for row in rows}
    return dense.astype(np.int64), [names.get(number, str(number)) for number in numbers.tolist()]


def _sources(column: NDArray[np.object_]) -> tuple[list[str], Ints]:
    names = list(dict.fromkeys(name for name in column.tolist() if name is not None))
    number = {name: i for i, name in enumerate(names)} | {None: -1}
    return names, np.array([number[name] for name in column.tolist()], dtype=np.int64)


def _scalars(session: AnySession, batch_id: str, index: Ints) -> dict[str, dict[str, Ints]]:
    """Numbers of a rollout, other than its reward, that are NaN or infinite: see `View.scalars`."""
    components, extra = cast(Rollout.reward_components, Text), cast(Rollout.extra, Text)
    odd = or_(components.like("%NaN%"), components.like("%Infinity%"), extra.like('%"_nonfinite"%'))
    statement = select(Rollout.index, Rollout.reward_components, Rollout.extra)
    place = {number: i for i, number in enumerate(index.tolist())}
    found: dict[str, dict[str, list[int]]] = {}
    for number, values, more in session.execute(statement.where(Rollout.batch_id == batch_id, odd)):
        said = dict((more or {}).get("_nonfinite") or {})
        for name, value in (values or {}).items():
            if isinstance(value, float) and not np.isfinite(value):
                said[name] = "NaN" if np.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        for name, kind in said.items():
            found.setdefault(name, {}).setdefault(kind, []).append(place[number])
    return {
        name: {kind: np.sort(np.array(places, dtype=np.int64)) for kind, places in kinds.items()}
        for name, kinds in found.items()
    }


def _truncated(columns: rollouts.Columns) -> Ints:
    """1 cut off, 0 not, −1 unknown: as recorded, else by the reason why generation ended."""
    said = [
        int(cut) if cut is not None else -1 if reason is None else int(reason in CUT)
        for cut, reason in zip(columns.truncated.tolist(), columns.finish_reason.tolist(), strict=True)
    ]
    return np.array(said, dtype=np.int64)


def _texts(
    session: AnySession, batch_id: str, index: Ints
) -> tuple[Ints, NDArray[np.bool_], NDArray[np.bool_]]:
    """Characters of each response (0 without text), whether its text is there, and whether that is blank."""
    trimmed = func.length(func.trim(Rollout.response, " \n\r\t"))
    statement = select(Rollout.index, func.length(Rollout.response), trimmed).where(
        Rollout.batch_id == batch_id
    )
    found = {
        number: (length, kept) for number, length, kept in session.execute(statement.order_by(Rollout.index))
    }
    pairs = [found.get(number, (None, None)) for number in index.tolist()]
    characters = np.array([length or 0 for length, _ in pairs], dtype=np.int64)
    texts = np.array([length is not None for length, _ in pairs], dtype=bool)
    return characters, texts, texts & np.array([not kept for _, kept in pairs], dtype=bool)


def _problems(session: AnySession, batch_id: str, upload_id: str, columns: rollouts.Columns) -> list[Said]:
    """The stored problems of the upload, except those of rows that are another batch's."""
    found = uploads.problems(session, upload_id, uploads.STORED_PROBLEMS)
    if not any(problem.row is not None for problem in found):
        return [_said(problem, -1) for problem in found]
    statement = select(Rollout.index, Rollout.file, Rollout.row).where(Rollout.batch_id == batch_id)
    place = {index: i for i, index in enumerate(columns.index.tolist())}
    places = {(row.file, row.row): place[row.index] for row in session.execute(statement)}
    return [
        _said(problem, places.get((problem.file, problem.row or 0), -1))
        for problem in found
        if problem.row is None or problem.severity == "error" or (problem.file, problem.row) in places
    ]


def _origin(session: AnySession, batch_id: str, upload_id: str) -> tuple[list[str], bool]:
    """The files of the batch's rollouts, and whether the upload has no other batch than this one."""
    names = session.execute(select(Rollout.file).where(Rollout.batch_id == batch_id).distinct()).scalars()
    files = sorted(name for name in names if name)
    others = select(Batch.id).where(Batch.upload_id == upload_id, Batch.id != batch_id).limit(1)
    upload = session.get(Upload, upload_id)
    return files or ([upload.filename] if upload else []), session.execute(others).first() is None


def _said(problem: Problem, place: int) -> Said:
    return Said(problem.code, problem.field, problem.row, place, problem.severity, problem.message)


def _observe(
    session: AnySession,
    batch_id: str,
    columns: rollouts.Columns,
    view: View,
    observers: Mapping[str, Observer],
    attempts: Attempts | None,
) -> None:
    names = arrays.fields(session, batch_id)
    parts = read_parts(session, batch_id, columns.group_no, columns.part)
    # The next part is read and decoded while everybody looks at one.
    with closing(parts), ahead(decoded(parts), lambda: None) as coming:
        watch(view, names, coming, observers, attempts)


def watch(
    view: View,
    names: Sequence[str],
    parts: Iterable[Part],
    observers: Mapping[str, Observer],
    attempts: Attempts | None = None,
) -> None:
    """Show every part of the batch to everybody who looks at tokens, each part once. `names`: its fields. An
    observer that raises sees no more, and `attempts` knows of it."""
    attempts = attempts or Attempts()
    for name, observer in observers.items():
        view.facts[name] = attempts.do((name, observer.title), partial(observer.begin, view), None)
    view.tokens.reward_field = token_facts.reward_field(names)
    for part in parts:
        token_facts.observe(part, view.tokens, view.rollouts)
        for name, observer in observers.items():
            if name not in attempts.failed:
                attempts.do((name, observer.title), partial(observer.observe, part, view.facts[name]), None)
    if view.tokens.advantage is not None:
        view.advantage = np.where(np.isnan(view.advantage), view.tokens.advantage, view.advantage)
