"""One rollout as a row of the database and as arrays beside it."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import fields
from operator import attrgetter, is_not
from typing import Any

from app.ingest.record import PROMPT_FIELD, TOKEN_FIELDS, Rollout

#: Columns that a rollout's record and its row share by name.
SAME = (
    "row", "file", "sample_index", "sample_id", "data_source", "finish_reason", "truncated", "terminated",
    "response", "messages", "ground_truth", "policy_version", "rollout_id", "segment", "rank", "micro_batch",
    "digest",
)  # fmt: skip
NUMBERS = ("advantage", "reward_baseline", "bootstrap_value")
NOT_A_FIELD = ("row", "file", "digest", "extra", "derived", "tokens")
#: Every field that a rollout may have: what a batch says of each is recorded, derived or absent.
CANONICAL = (*(f.name for f in fields(Rollout) if f.name not in NOT_A_FIELD), *TOKEN_FIELDS)

_OWN = tuple(name for name in CANONICAL if name not in TOKEN_FIELDS)
_VALUES, _NONE = attrgetter(*_OWN), (None,) * len(_OWN)

ROW_BYTES = 1000  # of a row's small columns, in the estimate of the memory that it takes
TEXT_BYTES = 60  # of one token's text as an object


def kind_of(rollout: Rollout) -> tuple[Any, ...]:
    """Equal for rollouts that have the same fields, derived by the same rules."""
    there = tuple(map(is_not, _VALUES(rollout), _NONE))
    return there, tuple(rollout.tokens), tuple(rollout.derived.items())


def present(rollout: Rollout) -> Iterator[str]:
    """Names of the canonical fields that the rollout has."""
    for name in CANONICAL:
        if name in TOKEN_FIELDS:
            if name in rollout.tokens:
                yield name
        elif getattr(rollout, name) is not None:
            yield name


def row_of(rollout: Rollout, index: int, prompt: str | None, messages: list[Any] | None) -> dict[str, Any]:
    """The columns of the rollout's row. `prompt` and `messages`, the group's, are repeated only if other."""
    row: dict[str, Any] = {name: getattr(rollout, name) for name in SAME}
    mask = rollout.tokens.get("response_mask")
    extra = dict(rollout.extra)
    for name in NUMBERS:
        row[name], label = finite(getattr(rollout, name))
        if label is not None:
            extra["_nonfinite"] = extra.get("_nonfinite", {}) | {name: label}
    row["reward"], row["reward_nonfinite"] = finite(rollout.reward)
    return row | {
        "index": index,
        "reward_components": rollout.reward_components,
        "length": rollout.length,
        "valid": None if mask is None else int(mask.sum()),
        "prompt": None if rollout.prompt == prompt else rollout.prompt,
        "prompt_messages": None if rollout.prompt_messages == messages else rollout.prompt_messages,
        "extra": extra or None,
    }


def finite(value: float | None) -> tuple[float | None, str | None]:
    """A number for the database, and the name of what it cannot hold: "NaN", "Infinity", "-Infinity"."""
    if value is None or math.isfinite(value):
        return value, None
    return None, "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def arrays_of(rollouts: Sequence[Rollout]) -> dict[str, list[Any]]:
    """Field -> one array per rollout, None where it has no such field; fields that none has are left out."""
    found: dict[str, list[Any]] = {name: [r.tokens.get(name) for r in rollouts] for name in TOKEN_FIELDS}
    found[PROMPT_FIELD] = [rollout.prompt_ids for rollout in rollouts]
    found["response_tokens"] = [rollout.response_tokens for rollout in rollouts]
    return {name: values for name, values in found.items() if any(value is not None for value in values)}


def weight(rollout: Rollout) -> int:
    """About how many bytes of memory the rollout takes."""
    arrays = sum(array.nbytes for array in rollout.tokens.values()) if rollout.tokens else 0
    texts = len(rollout.prompt or "") + len(rollout.response or "") + len(rollout.ground_truth or "")
    for messages in (rollout.prompt_messages, rollout.messages):
        if messages:
            texts += sum(len(str(message)) for message in messages)
    tokens = TEXT_BYTES * len(rollout.response_tokens or ())
    prompt = 0 if rollout.prompt_ids is None else rollout.prompt_ids.nbytes
    return ROW_BYTES + arrays + texts + tokens + prompt
