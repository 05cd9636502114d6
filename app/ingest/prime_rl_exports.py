"""prime-rl's token exports: {run}/token_exports/step_{s}/rank_{r}.jsonl and an empty STABLE when complete.

One packed sequence per line, every array over prompt and response; the response begins at the first token of
`loss_mask`. Non-finite values were written as null; a stream that is not there is a list of nulls. There is
no reward, no group and no text: send traces.jsonl of the same step with them, and rows are joined by their
token ids. Sequences without a trained token are not exported.
"""

import hashlib
import re
from collections.abc import Iterator
from typing import Any

from app.ingest import jsonl, names, scalars, sequences
from app.ingest.notes import Notes
from app.ingest.record import About, Format, Header, Item, Join, Problem, Rollout, Source
from app.settings import Settings

MARKS = frozenset(("token_ids", "loss_mask", "inference_logprobs", "export_sequence_idx"))
ARRAYS = {
    "token_ids": "response_ids",
    "loss_mask": "response_mask",
    "advantages": "advantages",
    "inference_logprobs": "rollout_log_probs",
    "trainer_logprobs": "old_log_probs",
    "entropy": "entropies",
    "rl_weights": "loss_weight",
}
#: Streams that follow from the two log-probs (or from counting) and are not kept.
FOLLOWS = ("position_ids", "mismatch_kl", "log_importance_ratio", "importance_ratio", "prob_delta")
KEPT = ("is_masked", "is_masked_high", "is_masked_low", "ce_weights", "ref_kl_weights")
LISTS = {name: "i" if name == "token_ids" else "d" for name in (*ARRAYS, *FOLLOWS)}
PLAIN = ("step", "rank", "micro_step", "micro_sequence_idx", "export_sequence_idx", "env_name")


def sniff(source: Source, settings: Settings) -> bool:
    row = jsonl.first_row(source, settings)
    return row is not None and row.keys() >= MARKS


def read(source: Source, settings: Settings) -> Iterator[Item]:
    step = names.step(source)

    def convert(row: int, fields: dict[str, Any], header: dict[str, Any], notes: Notes) -> Rollout | Problem:
        record = _rollout(row, fields, notes)
        if isinstance(record, Rollout):
            names.fill(record, step)
        return record

    yield from jsonl.read(source, settings, convert, Header(raw={"framework": "prime-rl"}), LISTS)


def _rollout(row: int, fields: dict[str, Any], notes: Notes) -> Rollout | Problem:
    record = Rollout(row)
    values = {canonical: _stream(fields.get(name)) for name, canonical in ARRAYS.items()}
    kept = {name: value for name in KEPT if (value := _stream(fields.get(name))) is not None}
    sequences.set_tokens(record, values, notes)
    if "response_ids" not in record.tokens:
        return Problem(f"row {row}: no token_ids; the row was not taken", "no_response", "error", row)
    before = 0 if record.prompt_ids is None else record.prompt_ids.shape[0]
    record.extra |= {
        name: value[before:] if isinstance(value, list) else value for name, value in kept.items()
    }
    record.step = scalars.integer(row, "step", fields.get("step"), notes)
    record.rank = scalars.integer(row, "rank", fields.get("rank"), notes)
    record.micro_batch = scalars.integer(row, "micro_batch", fields.get("micro_step"), notes)
    record.data_source = scalars.text(row, "data_source", fields.get("env_name"), notes)
    if (number := fields.get("export_sequence_idx")) is not None:
        record.sample_id = f"rank {record.rank} sequence {number}"
    if any(name in fields for name in FOLLOWS):
        message = f"{', '.join(name for name in FOLLOWS if name in fields)} follow from the rest; left out"
        notes.tally(row, None, "follows", message)
    known = (*ARRAYS, *KEPT, *FOLLOWS, *PLAIN, "schema_version")
    record.extra |= {name: value for name, value in fields.items() if name not in known}
    record.extra |= {
        name: fields[name] for name in ("micro_sequence_idx", "export_sequence_idx") if name in fields
    }
    return record


def _stream(value: Any) -> Any:
    """None for a stream that is not there: a list of nothing but nulls."""
    if isinstance(value, list) and value and all(item is None for item in value):
        return None
    return value


def token_key(rollout: Rollout) -> bytes | None:
    """The ids of prompt and response together, as 16 bytes; None where no ids were recorded."""
    ids = rollout.tokens.get("response_ids")
    if ids is None:
        return None
    state = hashlib.blake2b(digest_size=16)
    if rollout.prompt_ids is not None:
        state.update(rollout.prompt_ids.tobytes())
    state.update(ids.tobytes())
    return state.digest()


def sniff_marker(source: Source, settings: Settings) -> bool:
    return not source.head and source.name.rpartition("/")[2] == "STABLE"


def read_marker(source: Source, settings: Settings) -> Iterator[Item]:
    yield Header()


ABOUT = About(
    setting="`trainer.enable_token_export = true`",
    files="`{run}/token_exports/step_{s}/rank_{r}.jsonl`, `STABLE` when complete",
    recorded=(
        "step", "prompt_ids", "response_ids", "response_mask", "advantages", "rollout_log_probs",
        "old_log_probs", "entropies", "rank", "micro_batch", "data_source", "sample_id",
    ),
    sometimes=("loss_weight",),
    derived={"group_id": "identical prompt ids, until traces are sent with it"},
    absent={
        name: "send `rollouts/step_{s}/train/all/traces.jsonl` with it (monitor `file`, on by default)"
        for name in ("reward", "reward_components", "prompt", "response", "messages", "split")
    }
    | {"ref_log_probs": "", "values": "", "returns": ""},
)  # fmt: skip
FORMAT = Format(
    "prime-rl-tokens", "prime-rl token exports, JSONL", sniff, read, about=ABOUT,
    shard=re.compile(r"rank_(\d+)\.jsonl"), marker="STABLE",
)  # fmt: skip
MARKER = Format(
    "prime-rl-marker", "the marker that prime-rl's token exports are complete", sniff_marker, read_marker,
    companion=True, of=("prime-rl-tokens",),
)  # fmt: skip
#: Traces have floats rounded to 4 decimals; the exports have them as they were.
JOIN = Join("verifiers-traces", "prime-rl-tokens", "token ids", token_key, exact="side", tolerance=5.1e-5)
