"""NeMo-RL's step data: {log_dir}/exp_NNN/train_data_step{N}.jsonl and val_data_step{N}.jsonl, a row a sample.

The writer slices the batch by one, so every value but `idx` stands in a list of one. Arrays cover prompt and
response and are padded on the right to the longest of the batch: they are cut at `input_lengths`, and where
the response begins (the first token of `token_loss_mask`). `advantages` is one number over all positions.
Where dynamic sampling is on, `rewards` is of the batch before filtering and `filtered_rewards` is the row's.
The file has no group id: groups are runs of identical prompts.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from app.ingest import jsonl, names, prompts, scalars, sequences
from app.ingest.json_rows import a_kind
from app.ingest.notes import Notes
from app.ingest.record import About, Format, Header, Item, Problem, Rollout, Source
from app.settings import Settings

MARKS = frozenset(("content", "rewards", "idx"))
#: Arrays of the sequence: NeMo-RL's name -> the canonical one.
ARRAYS = {
    "token_ids": "response_ids",
    "token_loss_mask": "response_mask",
    "advantages": "advantages",
    "generation_logprobs": "rollout_log_probs",
    "prev_logprobs": "old_log_probs",
}
SINGLE = ("rewards", "filtered_rewards", "input_lengths", "sample_loss_mask")
LISTS = {name: "I" if name in ("token_ids", "token_loss_mask") else "D" for name in ARRAYS}


def sniff(source: Source, settings: Settings) -> bool:
    row = jsonl.first_row(source, settings)
    return row is not None and row.keys() >= MARKS and isinstance(row["content"], list)


def read(source: Source, settings: Settings) -> Iterator[Item]:
    step, split = names.step(source), names.split(source)

    def convert(row: int, fields: dict[str, Any], header: dict[str, Any], notes: Notes) -> Rollout | Problem:
        values = {name: unwrapped(value) for name, value in fields.items()}
        item = _rollout(row, values, notes)
        if isinstance(item, Rollout):
            names.fill(item, step, split)
        return item

    yield from jsonl.read(source, settings, convert, Header(raw={"framework": "nemo-rl"}), LISTS)


def unwrapped(value: Any) -> Any:
    """The only element of a list of one."""
    return value[0] if isinstance(value, list) and len(value) == 1 else value


def _rollout(row: int, fields: dict[str, Any], notes: Notes) -> Rollout | Problem:
    record = Rollout(row)
    if not _set_texts(record, fields.get("content"), notes):
        kind = a_kind(fields.get("content"))
        message = f"row {row}: content is {kind}, not a conversation; the row was not taken"
        return Problem(message, "no_response", "error", row, "content")
    filtered = fields.get("filtered_rewards")
    name = "rewards" if filtered is None else "filtered_rewards"
    record.reward = scalars.number(row, "reward", fields.get(name), notes)
    record.sample_index = scalars.integer(row, "sample_index", fields.get("idx"), notes)
    _set_arrays(record, fields, notes)
    for name, value in fields.items():
        if name not in (*ARRAYS, "content", "idx", "input_lengths") and (name not in SINGLE or filtered):
            record.extra[name] = value
    return record


def _set_texts(record: Rollout, content: Any, notes: Notes) -> bool:
    """Training rows have the texts of the messages, validation rows the messages."""
    if not isinstance(content, list) or not content:
        if isinstance(content, str):  # a single message was unwrapped
            record.response = content
        return isinstance(content, str)
    if prompts.is_messages(content):
        first = prompts.first_answer(content)
        prompts.set_prompt(record, content[:first], notes)
        return prompts.set_response(record, content[first:], notes)
    if not all(isinstance(text, str) for text in content):
        return False
    record.prompt, record.response = content[0], "".join(content[1:])
    if len(content) > 2:
        record.derived["response"] = "derived:join(messages)"
    return True


def _set_arrays(record: Rollout, fields: dict[str, Any], notes: Notes) -> None:
    values = {canonical: fields.get(name) for name, canonical in ARRAYS.items()}
    ids = values["response_ids"]
    if ids is None:
        return
    length = scalars.integer(record.row, "input_lengths", fields.get("input_lengths"), notes)
    if length is not None and isinstance(ids, (list, np.ndarray)) and 0 <= length < len(ids):
        values = {
            name: value[:length] if isinstance(value, (list, np.ndarray)) else value
            for name, value in values.items()
        }
        message = "arrays are padded to the longest row of the batch: cut at input_lengths"
        notes.tally(record.row, None, "padding_cut", message)
    sequences.set_tokens(record, values, notes)
    weight = scalars.number(record.row, "sample_loss_mask", fields.get("sample_loss_mask"), notes)
    mask = record.tokens.get(sequences.MASK)
    if weight is None or weight == 1 or mask is None:
        return
    if weight == 0:
        record.tokens[sequences.MASK] = np.zeros_like(mask)
        message = "sample_loss_mask is 0: the whole row is masked, as the trainer did"
        notes.tally(record.row, "response_mask", "sample_masked", message)
    else:
        record.tokens["loss_weight"] = mask * weight


ABOUT = About(
    setting="always on, unless `env.should_log_nemo_gym_responses`; `logger.log_dir` says where",
    files="`{log_dir}/exp_NNN/train_data_step{N}.jsonl`, `val_data_step{N}.jsonl`",
    recorded=(
        "response", "prompt", "prompt_ids", "response_ids", "response_mask", "rollout_log_probs",
        "old_log_probs", "advantages", "reward", "sample_index",
    ),
    sometimes=("messages", "loss_weight"),
    derived={
        "step": "file name", "split": "file name", "group_id": "runs of identical prompts",
    },
    absent={
        "ref_log_probs": "", "values": "", "returns": "", "entropies": "", "data_source": "",
        "ground_truth": "",
    },
)  # fmt: skip
FORMAT = Format("nemo-rl-steps", "NeMo-RL step data, JSONL", sniff, read, groups="adjacent", about=ABOUT)
