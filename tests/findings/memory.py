"""A view of canonical rows without a database: what the checks see, in a thousandth of the time."""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
from sqlalchemy import Row

from app import findings
from app.findings.part import Part, Stored
from app.findings.reading import watch
from app.findings.view import Bools, Floats, Ints, TokenFacts, View
from app.ingest.record import TOKEN_FIELDS, Rollout
from app.ingest.token_sums import MASK, SUMMED, derive_reward
from storage import arrays, codec
from storage.rollouts import INTEGERS, NUMBERS, OBJECTS, OPTIONAL, Columns

Rows = Sequence[Mapping[str, Any]]


def codes_of(rows: Rows, header: Mapping[str, Any] | None = None, **given: Any) -> dict[str, dict[str, Any]]:
    """The findings of canonical rows of one step, by code."""
    return {said["code"]: said for said in findings.check(view_of(rows, header, **given))}


def view_of(rows: Rows, header: Mapping[str, Any] | None = None, **given: Any) -> View:
    """The view that `read_view` gives of the same rows. `given`: other members of the view (`problems` …)."""
    rows, told = _with_rewards(rows)
    names = list(dict.fromkeys(row["group_id"] for row in rows))
    order = np.array([i for name in names for i, row in enumerate(rows) if row["group_id"] == name], np.int64)
    ordered = [rows[i] for i in order.tolist()]
    group = np.array([names.index(row["group_id"]) for row in ordered], dtype=np.int64)
    columns = _columns(ordered, order, group)
    sources = list(dict.fromkeys(row["data_source"] for row in ordered if row.get("data_source") is not None))
    texts = [row.get("response") for row in ordered]
    view = View(
        index=columns.index,
        group=group,
        group_ids=names,
        reward=columns.reward,
        nonfinite=columns.reward_nonfinite,
        scalars={},
        length=columns.length,
        valid=columns.valid,
        source=np.array(
            [sources.index(r["data_source"]) if r.get("data_source") is not None else -1 for r in ordered],
            int,
        ),
        sources=sources,
        advantage=columns.advantage,
        digest=columns.digest,
        blank=np.array([text is not None and not text.strip() for text in texts], dtype=bool),
        texts=np.array([text is not None for text in texts], dtype=bool),
        characters=np.array([len(text or "") for text in texts], dtype=np.int64),
        truncated=np.array([int(row.get("truncated", -1)) for row in ordered], dtype=np.int64),
        grouped=True,
        fields={name: "recorded" for row in ordered for name in row if row[name] is not None} | told,
        header=dict(header or {}),
        tokens=TokenFacts(),
        columns=columns,
        **given,
    )
    _watch(view, ordered)
    return view


def _with_rewards(rows: Rows) -> tuple[Rows, dict[str, str]]:
    """The rows with the rewards that a reader derives from their tokens, and by which rule."""
    made, told = list[dict[str, Any]](), dict[str, str]()
    for row in rows:
        tokens = {name: np.asarray(row[name], dtype=np.float64) for name in (*SUMMED, MASK) if name in row}
        rollout = Rollout(1, reward=row.get("reward"), tokens=tokens)
        derive_reward(rollout)
        told |= rollout.derived
        made.append({**row, "reward": rollout.reward})
    return made, told


def _columns(rows: Rows, index: Ints, group: Ints) -> Columns:
    masks = [row.get("response_mask") for row in rows]
    made: dict[str, Any] = {
        "index": index,
        "group_no": group,
        "part": np.zeros(len(rows), dtype=np.int64),
        "slot": np.arange(len(rows), dtype=np.int64),
        "row": index + 1,
        "length": np.array([_length(row) for row in rows], dtype=np.int64),
        "valid": np.array([-1 if mask is None else int(np.sum(mask)) for mask in masks], dtype=np.int64),
        "digest": np.array([_digest(row) for row in rows], dtype=object),
    }
    components = list(dict.fromkeys(name for row in rows for name in row.get("reward_components") or {}))
    made["components"] = {
        name: _numbers((row.get("reward_components") or {}).get(name) for row in rows) for name in components
    }
    known = {name: np.array([row.get(name) is not None for row in rows], dtype=bool) for name in OPTIONAL}
    made["known"] = {**known, "length": made["length"] >= 0, "valid": made["valid"] >= 0}
    for name in (*INTEGERS, *OPTIONAL):
        values = [-1 if row.get(name) is None else row[name] for row in rows]
        made.setdefault(name, np.array(values, dtype=np.int64))
    for name in NUMBERS:
        made[name] = _numbers(row.get(name) for row in rows)
    for name in OBJECTS:
        column = np.empty(len(rows), dtype=object)
        column[:] = [row.get(name) for row in rows]
        made.setdefault(name, column)
    return Columns(**made)


def _numbers(values: Any) -> Floats:
    return np.array([np.nan if value is None else value for value in values], dtype=np.float64)


def _length(row: Mapping[str, Any]) -> int:
    return next((len(row[name]) for name in TOKEN_FIELDS if name in row), -1)


def _digest(row: Mapping[str, Any]) -> str:
    own = {
        name: np.asarray(value).tobytes() if name in TOKEN_FIELDS else value for name, value in row.items()
    }
    return hashlib.sha256(repr(sorted(own.items())).encode()).hexdigest()[:32]


def _watch(view: View, rows: Rows) -> None:
    """The tokens of the rows as two stored parts, shown to all checks."""
    names = [name for name in TOKEN_FIELDS if any(name in row for row in rows)]
    cut = len(rows) // 2
    stored = [part for part in (_stored(rows[:cut], names), _stored(rows[cut:], names)) if part.rollouts]
    texts = ["response_tokens", "response_token_sizes"] if "response_tokens" in view.fields else []
    watch(view, [*names, *texts], [Part(0, stored)] if names or texts else [], findings.OBSERVERS)


def _stored(rows: Rows, names: Sequence[str]) -> Stored:
    found: dict[str, codec.Encoded] = {}
    for name in names:
        kind = {"response_mask": np.uint8, "response_ids": np.int64}.get(name, np.float64)
        values = [np.asarray(row[name], dtype=kind) if name in row else None for row in rows]
        if any(value is not None for value in values):
            found[name] = codec.encode(values)
    if any("response_tokens" in row for row in rows):
        data, sizes = arrays.pack_texts([row.get("response_tokens") for row in rows])
        found["response_tokens"], found["response_token_sizes"] = codec.encode(data), codec.encode(sizes)
    return Stored.of(len(rows), cast(Mapping[str, Row[Any]], found))


def mask_of(row: Mapping[str, Any]) -> Bools:
    found: Bools = np.asarray(row["response_mask"]) > 0
    return found
