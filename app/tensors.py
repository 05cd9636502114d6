"""From storage to tensors: the columns and token fields that a request needs, packed in storage order."""

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sqlalchemy import or_, select

from app.errors import Unprocessable
from estimators import TOKEN_FIELDS, Batch, Request
from estimators.groups import integer_ids
from estimators.registry import ESTIMATORS
from storage import arrays, rollouts
from storage.database import AnySession
from storage.models import Prompt, Rollout
from storage.rollouts import Columns

#: A number as JSON writes one with decimals or an exponent.
_DECIMAL = re.compile(r"-?\d+(\.\d+([eE][+-]?\d+)?|[eE][+-]?\d+)")


@dataclass(frozen=True, slots=True)
class Loaded:
    """`batch`, and the columns of the same rollouts, `[B]` in storage order.

    `unknown` `[B]`: no token field is recorded for the rollout; it stands in the batch as one unmasked token.
    """

    batch: Batch
    columns: Columns
    unknown: NDArray[np.bool_]


def token_fields(request: Request) -> tuple[str, ...]:
    """The per-token fields that the request reads where they are recorded."""
    wanted = {"token_level_rewards", "token_level_scores", *ESTIMATORS[request.estimator].needs}
    if getattr(request.params, "beta", 0):
        wanted |= {"old_log_probs", "ref_log_probs", "kl"}
    if "sum_pi_squared" in wanted:
        wanted.add("rollout_is_weights")
    if getattr(request.params, "bootstrap", "none") == "recorded":
        wanted.add("next_values")
    chosen = tuple(name for name in TOKEN_FIELDS if name in wanted)
    return (*chosen, "prompt_ids") if getattr(request.params, "num_input_tokens_weight", 0) else chosen


def load(session: AnySession, batch_id: str, fields: Sequence[str], grouping: str = "group_id") -> Loaded:
    """The batch with these token fields (`TOKEN_FIELDS` of estimators), grouped as asked."""
    columns = rollouts.columns(session, batch_id)
    unknown = ~columns.known["length"]
    lengths = np.where(unknown, 1, columns.length)
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
    mask = spread(arrays.flat(session, batch_id, "response_mask"), lengths, fill=1)
    data_source, tasks = numbered(columns.data_source, [name is not None for name in columns.data_source])
    batch = Batch(
        offsets=torch.from_numpy(offsets),
        response_mask=torch.from_numpy(np.ones(offsets[-1], np.bool_) if mask is None else mask != 0),
        group=torch.from_numpy(group_numbers(session, batch_id, columns, grouping)),
        scores=torch.from_numpy(scores(columns)),
        data_source=data_source,
        tasks=tasks,
        **rollout_fields(columns),
        components={name: torch.from_numpy(values) for name, values in columns.components.items()},
        lengths_known=not bool(unknown.all()),
        prompt_length=prompt_lengths(session, batch_id) if "prompt_ids" in fields else None,
        **{name: tensor(session, batch_id, name, lengths) for name in fields if name in TOKEN_FIELDS},
    )
    return Loaded(batch, columns, unknown)


def rollout_fields(columns: Columns) -> dict[str, torch.Tensor | None]:
    """The optional numbers of the rollouts, `[B]` each, None where no rollout has one recorded."""
    known, ids = columns.known, columns.rollout_id
    # A row without an id is a rollout of its own.
    own = np.array([f"-{i}" if each is None else f"+{each}" for i, each in enumerate(ids)], np.object_)
    return {
        "rank": dense(columns.rank, known["rank"]),
        "micro_batch": dense(columns.micro_batch, known["micro_batch"]),
        "rollout_id": None if all(each is None for each in ids) else dense(own, [True] * len(own)),
        "segment": torch.from_numpy(columns.segment) if known["segment"].any() else None,
        "index": torch.from_numpy(columns.index),
        "reward_baseline": number(columns.reward_baseline),
        "bootstrap_value": number(columns.bootstrap_value),
        "truncated": flag(columns.truncated),
        "terminated": flag(columns.terminated),
        "reward_nan": torch.from_numpy(nan) if (nan := columns.reward_nonfinite == "NaN").any() else None,
    }


def number(values: NDArray[np.float64]) -> torch.Tensor | None:
    return None if np.isnan(values).all() else torch.from_numpy(values)


def flag(values: NDArray[np.object_]) -> torch.Tensor | None:
    """What is recorded as true, `[B]` bool; None where nothing is recorded."""
    if all(value is None for value in values):
        return None
    return torch.from_numpy(values.astype(np.bool_))


def scores(columns: Columns) -> NDArray[np.float64]:
    """Rewards with the non-finite ones put back, NaN where not scored."""
    values = columns.reward.copy()
    for label, number in (("Infinity", np.inf), ("-Infinity", -np.inf)):
        values[columns.reward_nonfinite == label] = number
    return values


def tensor(session: AnySession, batch_id: str, field: str, lengths: NDArray[np.int64]) -> torch.Tensor | None:
    """A float field `[N]`, NaN for rollouts that lack it; None where no rollout has it."""
    values = spread(arrays.flat(session, batch_id, field), lengths, fill=np.nan)
    if values is None:
        return None
    return torch.from_numpy(values if values.dtype.kind == "f" else values.astype(np.float64))


def spread(
    found: tuple[NDArray[Any], NDArray[np.int32]] | None, lengths: NDArray[np.int64], fill: float
) -> NDArray[Any] | None:
    """A field's values laid out for `lengths` `[B]`; `fill` stands where a rollout has no such field."""
    if found is None:
        return None
    values, own = found
    if np.array_equal(own, lengths):
        return values
    wrong = (own >= 0) & (own != lengths)
    if wrong.any():
        raise Unprocessable(
            f"A token field of the rollout at place {int(np.argmax(wrong))} is not as long as its response. "
            "Run `vantage check`."
        )
    kind = np.result_type(values.dtype, np.float32) if np.isnan(fill) else values.dtype
    out = np.full(int(lengths.sum()), fill, kind)
    out[np.repeat(own >= 0, lengths)] = values
    return out


def prompt_lengths(session: AnySession, batch_id: str) -> torch.Tensor | None:
    """Tokens of each rollout's prompt, `[B]`, 0 where it has no ids; None where no rollout has."""
    found = arrays.flat(session, batch_id, "prompt_ids")
    return None if found is None else torch.from_numpy(found[1].clip(min=0).astype(np.int64))


def dense(values: NDArray[Any], known: Sequence[bool] | NDArray[np.bool_]) -> torch.Tensor | None:
    """Dense numbers `[B]` of what is known; the rollouts without it share one number. None: nobody has it."""
    return numbered(values, known)[0]


def numbered(
    values: NDArray[Any], known: Sequence[bool] | NDArray[np.bool_]
) -> tuple[torch.Tensor | None, tuple[str, ...]]:
    """`dense`, and what each number stands for ("": not known)."""
    if not np.any(known):
        return None, ()
    texts = np.array([f"={value}" if there else "" for value, there in zip(values, known, strict=True)])
    names, numbers = np.unique(texts, return_inverse=True)
    return torch.from_numpy(numbers.astype(np.int64)), tuple(str(name)[1:] for name in names)


def group_numbers(session: AnySession, batch_id: str, columns: Columns, grouping: str) -> NDArray[np.int64]:
    """Dense group numbers `[B]`: as stored (`group_id`), by equal prompt, or every N in the file's order."""
    if grouping == "group_id":
        keys: NDArray[Any] = columns.group_no
    elif grouping == "prompt":
        keys = prompt_keys(session, batch_id, columns)
    elif grouping == "integer_id":
        names = _ids(session, batch_id)
        of_number = dict(zip(names, integer_ids(list(names.values())).tolist(), strict=True))
        keys = np.array([of_number[number] for number in columns.group_no.tolist()], np.int64)
    else:
        keys = columns.index // int(grouping.removeprefix("stride:"))
    return np.unique(keys, return_inverse=True)[1].astype(np.int64)


def _ids(session: AnySession, batch_id: str) -> dict[int, str | float]:
    """The id of each group, by its number: a text, or a number with decimals where the file had one."""
    named = select(Prompt.group_no, Prompt.group_id).where(Prompt.batch_id == batch_id)
    names: dict[int, str | float] = {row.group_no: row.group_id for row in session.execute(named)}
    decimal = {number for number, name in names.items() if _DECIMAL.fullmatch(str(name))}
    if not decimal:
        return names
    typed = select(Rollout.group_no, Rollout.extra).where(
        Rollout.batch_id == batch_id, Rollout.extra.is_not(None), Rollout.group_no.in_(decimal)
    )
    for group_no, extra in session.execute(typed):
        if extra.get("group_id_type") == "number":
            names[group_no] = float(names[group_no])
    return names


def prompt_keys(session: AnySession, batch_id: str, columns: Columns) -> NDArray[np.str_]:
    """A text per rollout `[B]`, equal for equal prompts. Raises Unprocessable where one has no prompt."""
    shared = select(Prompt.group_no, Prompt.prompt, Prompt.messages).where(Prompt.batch_id == batch_id)
    of_group = {row.group_no: (row.prompt, row.messages) for row in session.execute(shared)}
    differs = select(Rollout.index, Rollout.prompt, Rollout.prompt_messages).where(
        Rollout.batch_id == batch_id,
        or_(Rollout.prompt.is_not(None), Rollout.prompt_messages.is_not(None)),
    )
    own = {row.index: (row.prompt, row.prompt_messages) for row in session.execute(differs)}
    digests = {number: digest(prompt) for number, prompt in of_group.items()}
    found = []
    for index, group_no in zip(columns.index.tolist(), columns.group_no.tolist(), strict=True):
        text, messages = own.get(index, (None, None))
        group_text, group_messages = of_group[group_no]
        whole = (text or group_text, messages or group_messages)
        if whole == (None, None):
            raise Unprocessable(
                f"Grouping by prompt needs the prompt of every rollout; rollout {index} has none. "
                "Use group_id, or stride:N."
            )
        found.append(digest(whole) if index in own else digests[group_no])
    return np.array(found, np.str_)


def digest(prompt: tuple[str | None, list[Any] | None]) -> str:
    return hashlib.sha256(json.dumps(prompt, sort_keys=True).encode()).hexdigest()[:24]
