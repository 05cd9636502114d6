"""Reads the `View` of a batch: light columns, then each per-token field once, part by part."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Text, cast, func, or_, select

from app.findings.view import Floats, Ints, TokenFacts, View, groups_exist
from storage import arrays, batches, rollouts
from storage.database import AnySession
from storage.models import Prompt, Rollout

#: Fields whose values are whole numbers: nothing in them can be NaN.
WHOLE = ("response_ids", "response_mask", "prompt_ids", "response_tokens")
#: Finish reasons that mean "cut off by the length limit".
CUT = ("length", "max_tokens", "truncated")
#: Where reward stands on tokens: the first that is there, as the second may contain a KL term.
REWARDS = ("token_level_scores", "token_level_rewards")

Masks = dict[tuple[int, int], list[NDArray[Any] | None]]  # (group_no, part) -> mask per slot


def read_view(
    session: AnySession,
    batch_id: str,
    fields: dict[str, Any] | None = None,
    header: dict[str, Any] | None = None,
    deep: bool = True,
) -> View:
    """The view of a batch in any state. `fields` and `header` replace the batch's own, which a batch that is
    being written does not have yet. Not `deep`: without what only texts and token arrays tell."""
    batch = batches.get_any(session, batch_id)
    columns = rollouts.columns(session, batch_id)
    known = {str(name): str(how) for name, how in (fields or (batch.fields if batch else {})).items()}
    group, group_ids = _groups(session, batch_id, columns.group_no)
    sources, source = _sources(columns.data_source)
    no = np.zeros(columns.rollouts, dtype=bool)
    view = View(
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
        header=dict(header or (batch.header if batch else {})),
        tokens=TokenFacts(),
    )
    if deep:
        view.scalars = _scalars(session, batch_id, columns.index)
        view.characters, view.texts, view.blank = _texts(session, batch_id, columns.index)
        _read_tokens(session, batch_id, columns.group_no, columns.part, view)
    return view


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


def _read_tokens(session: AnySession, batch_id: str, group_no: Ints, part: Ints, view: View) -> None:
    names = [name for name in arrays.fields(session, batch_id) if ":" not in name and name not in WHOLE]
    if not names:
        return
    starts = {
        key: i for i, key in reversed(list(enumerate(zip(group_no.tolist(), part.tolist(), strict=True))))
    }
    masks = {
        (group, number): slots for group, number, slots in arrays.iterate(session, batch_id, "response_mask")
    }
    facts = view.tokens
    facts.reward_field = next((name for name in REWARDS if name in names and masks), None)
    facts.bad_on_mask = np.zeros(view.rollouts, dtype=np.int64)
    for name in names:
        for place, values, member, mask in _parts(session, batch_id, name, starts, masks):
            _nonfinite(facts, name, place, values, member, mask, view.rollouts)
            if name == facts.reward_field:
                _rewards(facts, place, values, member, mask, view.rollouts)
            if name == "advantages":
                _advantages(facts, place, values, member, mask, view.rollouts)
    if facts.advantage is not None:
        view.advantage = np.where(np.isnan(view.advantage), facts.advantage, view.advantage)


def _parts(
    session: AnySession, batch_id: str, field: str, starts: dict[tuple[int, int], int], masks: Masks
) -> Iterator[tuple[slice, NDArray[Any], Ints, NDArray[np.bool_]]]:
    """Per part: its places in the view, the values end to end, their slot in the part, and their mask."""
    for group_no, part, slots in arrays.iterate(session, batch_id, field):
        start = starts[group_no, part]
        there = [i for i, values in enumerate(slots) if values is not None and values.size]
        if not there:
            continue
        kept = [values for values in slots if values is not None and values.size]
        member = np.repeat(np.array(there, dtype=np.int64), [values.size for values in kept])
        own = masks.get((group_no, part), [None] * len(slots))
        bits = [_bits(own[i], values.size) for i, values in zip(there, kept, strict=True)]
        values, mask = np.concatenate(kept), np.concatenate(bits)
        yield slice(start, start + len(slots)), values, member, mask


def _bits(mask: NDArray[Any] | None, size: int) -> NDArray[np.bool_]:
    """A rollout's mask; without one every token is unmasked."""
    return np.ones(size, dtype=bool) if mask is None else np.asarray(mask > 0)


def _nonfinite(
    facts: TokenFacts,
    name: str,
    place: slice,
    values: NDArray[Any],
    member: Ints,
    mask: NDArray[np.bool_],
    total: int,
) -> None:
    if values.dtype.kind != "f":
        return
    odd = ~np.isfinite(values)
    if not odd.any():
        return
    null = arrays.is_missing(values)
    kinds = {
        "NaN": np.isnan(values) & ~null,
        "Infinity": values == np.inf,
        "-Infinity": values == -np.inf,
        "null": null & mask,
    }
    for kind, which in kinds.items():
        if which.any():
            tokens = facts.bad.setdefault(name, {}).setdefault(kind, np.zeros(total, dtype=np.int64))
            tokens[place] += np.bincount(member[which], minlength=place.stop - place.start)
    assert facts.bad_on_mask is not None
    facts.bad_on_mask[place] += np.bincount(member[odd & ~null & ~mask], minlength=place.stop - place.start)


def _rewards(
    facts: TokenFacts, place: slice, values: NDArray[Any], member: Ints, mask: NDArray[np.bool_], total: int
) -> None:
    if facts.masked_reward is None or facts.masked_rewarded is None or facts.trainable_reward is None:
        facts.masked_reward, facts.trainable_reward = np.zeros(total), np.zeros(total)
        facts.masked_rewarded = np.zeros(total, dtype=np.int64)
    slots = place.stop - place.start
    finite = np.where(np.isfinite(values), values, 0.0).astype(np.float64)
    outside = np.where(mask, 0.0, np.abs(finite))
    facts.masked_reward[place] = np.bincount(member, outside, minlength=slots)
    facts.masked_rewarded[place] = np.bincount(member[outside > 0], minlength=slots)
    facts.trainable_reward[place] = np.bincount(member, np.where(mask, finite, 0.0), minlength=slots)


def _advantages(
    facts: TokenFacts, place: slice, values: NDArray[Any], member: Ints, mask: NDArray[np.bool_], total: int
) -> None:
    if facts.advantage is None or facts.advantage_spread is None:
        facts.advantage, facts.advantage_spread = np.full(total, np.nan), np.full(total, np.nan)
    slots = place.stop - place.start
    taken = mask & np.isfinite(values)
    kept, owner = values[taken].astype(np.float64), member[taken]
    low, high = np.full(slots, np.inf), np.full(slots, -np.inf)
    np.minimum.at(low, owner, kept)
    np.maximum.at(high, owner, kept)
    count = np.bincount(owner, minlength=slots)
    some = count > 0
    mean: Floats = np.full(slots, np.nan)
    mean[some] = np.bincount(owner, kept, minlength=slots)[some] / count[some]
    facts.advantage[place] = mean
    facts.advantage_spread[place] = np.where(some, high, np.nan) - np.where(some, low, np.nan)
