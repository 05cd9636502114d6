"""SkyRL's training input (`trainer.dump_data_batch=true`): global_step_{N}_training_input.pkl.

`sequences` hold prompt and response, padded on the left; the columns of the response are padded on the left,
too. Which positions are tokens is told by the two masks, never by position. Rewards and uids are taken out
before the dump: groups are identical prompt ids, named as derived. Read by the reader of app/inert.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.ingest import inert_rows, names, scalars, token_arrays
from app.ingest.notes import Notes
from app.ingest.pickle_looks import look
from app.ingest.record import About, Format, Header, Item, Problem, Rollout, Source
from app.settings import Settings

TOKENS = {
    "loss_mask": "response_mask", "rollout_logprobs": "rollout_log_probs",
    "action_log_probs": "old_log_probs", "base_action_log_probs": "ref_log_probs", "values": "values",
    "advantages": "advantages", "returns": "returns", "kl": "kl", "rewards": "token_level_rewards",
}  # fmt: skip
LAYOUT = ("sequences", "attention_mask", "response_mask")
CLASSES = ("_rebuild_tensor_batch", "TrainingInputBatch", "TensorBatch")
MAPPED = frozenset((*TOKENS, *LAYOUT))


def sniff(source: Source, settings: Settings) -> bool:
    found = look(source)
    return (
        found is not None and bool(found.names) and found.names[0].startswith("skyrl")
        and found.names[0].rpartition(".")[2] in CLASSES
    )  # fmt: skip


def read(source: Source, settings: Settings) -> Iterator[Item]:
    notes = Notes()
    with inert_rows.opened(source, settings) as rows:
        inert_rows.expect(rows, ("skyrl",))
        yield Header(raw={"framework": "skyrl", **rows.others})
        yield from inert_rows.said(rows)
        for number, fields in rows:
            item = _rollout(number, fields, notes)
            if isinstance(item, Rollout):
                item.step = scalars.integer(number, "step", rows.others.get("global_step"), notes)
                names.fill(item, names.step(source))
            yield from notes.drain()
            yield item
    yield from notes.summary()


def _array(fields: dict[str, Any], name: str) -> NDArray[Any]:
    value = fields.get(name)
    return value if isinstance(value, np.ndarray) and value.ndim == 1 else np.zeros(0)


def _rollout(row: int, fields: dict[str, Any], notes: Notes) -> Rollout | Problem:
    record = Rollout(row)
    sequence, attention, mask = (_array(fields, name) for name in LAYOUT)
    if not sequence.size or sequence.shape != attention.shape:
        message = f"row {row}: sequences, attention_mask and response_mask do not fit; the row was not taken"
        return Problem(message, "no_response", "error", row, "sequences")
    ids, keep = sequence[attention != 0], mask != 0
    count = int(keep.sum())
    if count > ids.shape[0]:
        message = f"row {row}: {count} response tokens, but {ids.shape[0]} in all; the row was not taken"
        return Problem(message, "length_mismatch", "error", row, "response_mask")
    before = ids.shape[0] - count
    record.prompt_ids = token_arrays.read(row, "prompt_ids", ids[:before], notes)
    if (found := token_arrays.read(row, "response_ids", ids[before:], notes)) is not None:
        record.tokens["response_ids"] = found
    for name, canonical in TOKENS.items():
        value = fields.get(name)
        if isinstance(value, np.ndarray) and value.shape == keep.shape:
            array = token_arrays.read(row, canonical, value[keep], notes)
            if array is not None:
                fractions = canonical == token_arrays.MASK and array.dtype != np.uint8
                record.tokens["loss_weight" if fractions else canonical] = array
        elif value is not None:
            notes.warn(
                row, name, "length_mismatch", f"{name} does not fit response_mask; left out of this row"
            )
    for name, value in fields.items():
        if name not in MAPPED and value is not None:
            record.extra[name] = value.tolist() if isinstance(value, np.ndarray) else value
    return record


ABOUT = About(
    setting="`trainer.dump_data_batch=true`",
    files="`{export_path}/dumped_data/global_step_{N}_training_input.pkl`",
    recorded=(
        "step", "prompt_ids", "response_ids", "response_mask", "rollout_log_probs", "old_log_probs",
        "ref_log_probs", "advantages", "returns",
    ),
    sometimes=("values", "kl", "loss_weight", "token_level_rewards"),
    derived={"group_id": "identical prompt ids", "step": "file name, where metadata has none"},
    absent={
        "reward": "taken out before the dump; `trainer.dump_eval_results` for evaluations",
        "response": "upload the tokenizer.json", "prompt": "upload the tokenizer.json", "data_source": "",
        "ground_truth": "", "finish_reason": "",
    },
)  # fmt: skip
FORMAT = Format("skyrl-training", "SkyRL training input, .pkl", sniff, read, about=ABOUT)
