"""One training sample of prime-rl's rollouts.bin, a positional array whose layout the types tell.

New: [ids, mask, log-probs, temperatures, environment, reference log-probs, …] over the whole sequence. Old:
[prompt ids, prompt mask, completion ids, mask, log-probs, …, advantage, reward].
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.ingest import msgpack_values as pack
from app.ingest import sequences
from app.ingest.notes import Notes
from app.ingest.record import Rollout

REF_LOG_PROBS, RL_WEIGHTS, ADVANTAGES = 5, 10, 13


def sample(row: int, parts: list[memoryview], notes: Notes) -> Rollout:
    """Raises Malformed."""
    if len(parts) < 5:
        raise pack.Malformed
    return _new(row, parts, notes) if isinstance(pack.single(parts[4]), str) else _old(row, parts, notes)


def _new(row: int, parts: list[memoryview], notes: Notes) -> Rollout:
    record = Rollout(row, data_source=str(pack.single(parts[4])))
    places = (("rollout_log_probs", 2), ("ref_log_probs", REF_LOG_PROBS), ("loss_weight", RL_WEIGHTS))
    values: dict[str, Any] = {
        "response_ids": _required(parts[0], "i"), "response_mask": _required(parts[1], "b"),
    }  # fmt: skip
    for name, place in (*places, ("advantages", ADVANTAGES)):
        values[name] = pack.numbers(parts[place], "f") if place < len(parts) else None
    sequences.set_tokens(record, values, notes)
    return record


def _old(row: int, parts: list[memoryview], notes: Notes) -> Rollout:
    prompt, ids = _required(parts[0], "i"), _required(parts[2], "i")
    record = Rollout(row)
    values = {
        "response_ids": np.concatenate((prompt, ids)),
        "response_mask": np.concatenate((np.zeros(prompt.shape[0], np.uint8), _mask(parts[3]))),
        "rollout_log_probs": np.concatenate((np.zeros(prompt.shape[0]), _required(parts[4], "f"))),
    }
    sequences.set_tokens(record, values, notes, start=prompt.shape[0])
    single = [value for part in parts[5:10] if (value := pack.single(part)) is not None]
    record.data_source = next((value for value in single if isinstance(value, str)), None)
    scored = [
        float(value) for value in single if isinstance(value, (int, float)) and not isinstance(value, bool)
    ]
    record.advantage, record.reward = (*scored, None, None)[:2]
    return record


def _mask(part: memoryview) -> NDArray[Any]:
    found = pack.numbers(part, "b")
    return _required(part, "i") if found is None else found


def _required(part: memoryview, kind: str) -> NDArray[Any]:
    found = pack.numbers(part, kind)
    if found is None:
        raise pack.Malformed
    return found
