"""Stored rollouts as canonical rows again: what was recorded of them, with or without their texts."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import select

from storage import arrays
from storage.arrays import is_missing
from storage.database import AnySession
from storage.models import Batch, Prompt, Rollout

Row = dict[str, Any]
#: Columns that a canonical row has under the same name.
SAME = (
    "sample_index", "sample_id", "data_source", "finish_reason", "truncated", "terminated", "reward",
    "reward_components", "advantage", "reward_baseline", "bootstrap_value", "policy_version", "rollout_id",
    "segment", "rank", "micro_batch", "ground_truth", "response", "messages",
)  # fmt: skip
#: What Vantage itself keeps beside what it does not know.
OWN = ("_nonfinite", "group_id_type")
#: Fields that hold what a model or a person wrote.
TEXTS = ("prompt", "response", "messages", "ground_truth")
#: Tokens that are no words: kept without the texts, as findings are about them.
SPECIAL = re.compile(r"<[^<>\s]{1,40}>|\[[A-Z_]{2,20}\]|")
#: Shown for a text that is left out.
HIDDEN = "…"


def rows_of(session: AnySession, batch: Batch, indexes: Iterable[int]) -> list[Row]:
    """The rollouts with these numbers as canonical rows, in the order of the batch."""
    wanted = sorted(set(indexes))
    prompts = select(Prompt).where(Prompt.batch_id == batch.id)
    of_group = {prompt.group_no: prompt for prompt in session.scalars(prompts)}
    found: list[Row] = []
    for start in range(0, len(wanted), 500):
        some = Rollout.index.in_(wanted[start : start + 500])
        statement = select(Rollout).where(Rollout.batch_id == batch.id, some).order_by(Rollout.index)
        found += [_row(session, batch, row, of_group[row.group_no]) for row in session.scalars(statement)]
    return found


def _row(session: AnySession, batch: Batch, rollout: Rollout, group: Prompt) -> Row:
    row: Row = {"step": batch.step, "split": batch.split, "group_id": group.group_id}
    row["prompt"] = _first(rollout.prompt, rollout.prompt_messages, group.prompt, group.messages)
    row |= {name: getattr(rollout, name) for name in SAME}
    odd: dict[str, Any] = dict((rollout.extra or {}).get("_nonfinite") or {})
    if rollout.reward_nonfinite:
        odd["reward"] = rollout.reward_nonfinite
    for name, values in arrays.rollout_arrays(session, rollout).items():
        row[name], labels = plain_values(values) if isinstance(values, np.ndarray) else (values, {})
        odd |= {name: labels} if labels else {}
    more = {name: value for name, value in (rollout.extra or {}).items() if name not in OWN}
    row |= {"extra": more or None, "_nonfinite": odd or None}
    return {name: value for name, value in row.items() if value is not None}


def _first(*values: Any) -> Any:
    return next((value for value in values if value is not None), None)


def plain_values(values: NDArray[Any]) -> tuple[list[Any], dict[str, str]]:
    """A JSON list, and what its nulls stand for where they are numbers."""
    if values.dtype.kind != "f":
        return values.tolist(), {}
    odd = np.flatnonzero(~np.isfinite(values))
    if not odd.size:
        return values.astype(np.float64).tolist(), {}
    plain: list[Any] = values.astype(np.float64).tolist()
    labels: dict[str, str] = {}
    for i, missing in zip(odd.tolist(), is_missing(values[odd]).tolist(), strict=True):
        value = plain[i]
        if not missing:
            labels[str(i)] = "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
        plain[i] = None
    return plain, labels


def cut(row: Row, kept: Sequence[int]) -> Row:
    """The row with the tokens at these positions only, ascending; positions behind its end do not count."""
    length = length_of(row)
    own = [position for position in kept if position < length]
    if len(own) == length:
        return row
    made = {name: _picked(name, value, own, length) for name, value in row.items()}
    if (odd := row.get("_nonfinite")) is not None:
        place = {str(position): str(i) for i, position in enumerate(own)}
        made["_nonfinite"] = {
            name: {place[at]: label for at, label in entry.items() if at in place}
            if isinstance(entry, dict)
            else entry
            for name, entry in odd.items()
        }
    if "response_tokens" in row and isinstance(row.get("response"), str):
        made["response"] = "".join(made["response_tokens"])
    return made


def length_of(row: Row) -> int:
    """Tokens of the response: of the first per-token field that says so."""
    for name in ("response_ids", "response_tokens", "response_mask"):
        if isinstance(row.get(name), list):
            return len(row[name])
    sizes = [len(row[name]) for name in row if per_token(name, row[name])]
    return max(sizes, default=0)


def per_token(name: str, value: Any) -> bool:
    return isinstance(value, list) and name not in ("prompt", "messages", "prompt_ids")


def _picked(name: str, value: Any, kept: list[int], length: int) -> Any:
    if name == "extra" and isinstance(value, Mapping):
        return {key: _picked(key, inner, kept, length) for key, inner in value.items()}
    if not per_token(name, value) or not length <= len(value) <= length + 1:
        return value
    return [value[i] for i in kept] + value[length:]


def without_texts(rows: Sequence[Row], special: Collection[int] = ()) -> list[Row]:
    """The rows with numbers only. Equal texts stay equal and blank ones blank, ids get other numbers; tokens
    that are no words, and the ids in `special`, stay.
    """
    fresh = (number for number in count(1) if number not in special)
    ids = {number: number for number in special}
    prompts: dict[str, str] = {}
    responses: dict[str, str] = {}
    found = []
    for row in rows:
        made = {name: value for name, value in row.items() if name not in ("messages", "ground_truth")}
        if "prompt" in row:
            made["prompt"] = prompts.setdefault(repr(row["prompt"]), f"prompt {len(prompts)}")
        _hide_response(made, responses)
        for name in ("response_ids", "prompt_ids"):
            if name in row:
                for each in row[name]:
                    if each not in ids:
                        ids[each] = each if each < 0 else next(fresh)
                made[name] = [ids[each] for each in row[name]]
        if isinstance(row.get("extra"), Mapping):
            made["extra"] = {name: value for name, value in row["extra"].items() if _numeric(value)} or None
        found.append({name: value for name, value in made.items() if value is not None})
    return found


def _hide_response(row: Row, known: dict[str, str]) -> None:
    tokens, response = row.get("response_tokens"), row.get("response")
    if tokens is not None:
        row["response_tokens"] = [text if SPECIAL.fullmatch(text) else HIDDEN for text in tokens]
    if isinstance(response, str) and response.strip():
        if tokens is None:
            row["response"] = known.setdefault(response, f"response {len(known)}")
        else:
            del row["response"]  # the tokens say it


def _numeric(value: Any) -> bool:
    """Numbers, truth values and lists of them."""
    if isinstance(value, list):
        return all(map(_numeric, value))
    return value is None or isinstance(value, int | float)
