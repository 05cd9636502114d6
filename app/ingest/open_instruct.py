"""open-instruct's traces: {run}_rollouts_{shard:06d}.jsonl (10,000 rows a shard, many steps), a row a sample.

The group is `prompt_idx` within a step. `ground_truth` is often a list of token ids and is kept as written.
There is no text, and no mask: tokens that a tool returned are inside the response and not marked.
{run}_metadata.jsonl beside the rows goes into the batch's header.
"""

import re
from collections.abc import Iterator
from typing import Any

from app.ingest import jsonl, scalars, token_arrays
from app.ingest.json_rows import a_kind
from app.ingest.notes import Notes
from app.ingest.record import About, Format, Header, Item, Problem, Rollout, Source
from app.settings import Settings

MARKS = frozenset(("prompt_idx", "prompt_tokens", "response_tokens"))
METADATA = frozenset(("run_name", "git_commit", "model_name"))
MAPPED = frozenset((
    *MARKS, "step", "sample_idx", "reward", "advantage", "finish_reason", "dataset", "ground_truth",
    "logprobs",
))  # fmt: skip
LISTS = {"prompt_tokens": "i", "response_tokens": "i", "logprobs": "d"}
_NAME = re.compile(r"(?:.*/)?(.+)_rollouts_\d+\.jsonl")


def sniff(source: Source, settings: Settings) -> bool:
    row = jsonl.first_row(source, settings)
    return row is not None and row.keys() >= MARKS


def read(source: Source, settings: Settings) -> Iterator[Item]:
    named = _NAME.fullmatch(source.name)
    header = Header(run=named[1] if named else None, raw={"framework": "open-instruct"})
    yield from jsonl.read(source, settings, _rollout, header, LISTS)


def _rollout(row: int, fields: dict[str, Any], header: dict[str, Any], notes: Notes) -> Rollout | Problem:
    record = Rollout(row)
    ids = fields.get("response_tokens")
    found = None if ids is None else token_arrays.read(row, "response_ids", ids, notes)
    if found is None:
        message = f"row {row}: response_tokens is {a_kind(ids)}, not token ids; the row was not taken"
        return Problem(message, "no_response", "error", row, "response_tokens")
    arrays = {"response_ids": found}
    if (prompt := fields.get("prompt_tokens")) is not None:
        record.prompt_ids = token_arrays.read(row, "prompt_ids", prompt, notes)
    if (values := fields.get("logprobs")) is not None:
        log_probs = token_arrays.read(row, "rollout_log_probs", values, notes)
        if log_probs is not None:
            arrays["rollout_log_probs"] = log_probs
    record.tokens, _ = token_arrays.same_length(row, arrays, None, notes)
    record.step = scalars.integer(row, "step", fields.get("step"), notes)
    record.sample_index = scalars.integer(row, "sample_index", fields.get("sample_idx"), notes)
    if group := scalars.typed_id(fields.get("prompt_idx")):
        record.group_id, kind = group
        record.extra["group_id_type"] = kind
    record.reward = scalars.number(row, "reward", fields.get("reward"), notes)
    record.advantage = scalars.number(row, "advantage", fields.get("advantage"), notes)
    record.finish_reason = scalars.text(row, "finish_reason", fields.get("finish_reason"), notes)
    record.data_source = scalars.text(row, "data_source", fields.get("dataset"), notes)
    record.ground_truth = scalars.text(row, "ground_truth", fields.get("ground_truth"), notes)
    record.extra |= {name: value for name, value in fields.items() if name not in MAPPED}
    _look_for_tools(record, fields.get("request_info"), notes)
    return record


def _look_for_tools(record: Rollout, info: Any, notes: Notes) -> None:
    if isinstance(info, dict) and (info.get("num_calls") or info.get("tool_calleds")):
        message = "tools were called: what they returned is inside the response and not marked"
        notes.tally(record.row, "response_mask", "tools_unmarked", message, "warning")


def sniff_metadata(source: Source, settings: Settings) -> bool:
    row = jsonl.first_row(source, settings)
    return row is not None and row.keys() >= METADATA


def read_metadata(source: Source, settings: Settings) -> Iterator[Item]:
    fields = dict(jsonl.first_row(source, settings) or {})
    name = fields.pop("run_name", None)
    run = name if isinstance(name, str) else None
    yield Header(run=run, raw=fields, prefix=run or "")


ABOUT = About(
    setting="`--save_traces --rollouts_save_path DIR`",
    files="`{run}_rollouts_{shard:06d}.jsonl` + `{run}_metadata.jsonl`",
    recorded=(
        "step", "group_id", "sample_index", "prompt_ids", "response_ids", "rollout_log_probs", "reward",
        "advantage", "finish_reason", "data_source", "ground_truth",
    ),
    absent={
        "prompt": "upload the tokenizer", "response": "upload the tokenizer", "response_mask": "",
        "old_log_probs": "", "ref_log_probs": "", "reward_components": "", "split": "",
    },
)  # fmt: skip
FORMAT = Format(
    "open-instruct-rollouts", "open-instruct traces, JSONL", sniff, read, about=ABOUT,
    shard=re.compile(r"_rollouts_(\d+)\.jsonl"),
)  # fmt: skip
META = Format(
    "open-instruct-metadata", "metadata of open-instruct traces", sniff_metadata, read_metadata,
    companion=True, of=("open-instruct-rollouts",),
)  # fmt: skip
