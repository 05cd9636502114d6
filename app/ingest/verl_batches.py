"""verl's pickled batches: `DataProto.save_to_disk` (.dp, both ways of serialising) and the TransferQueue's
tq_batch.pt.

They are read by the reader of app/inert: values, never objects.
"""

from collections.abc import Iterator
from typing import Any

from app.ingest import documents, inert_rows, names, scalars, verl_tensors
from app.ingest.notes import Notes
from app.ingest.pickle_looks import look
from app.ingest.record import About, Format, Header, Item, Rollout, Source
from app.ingest.verl_jsonl import UID
from app.settings import Settings


def sniff(source: Source, settings: Settings) -> bool:
    found = look(source)
    return found is not None and found.names[:1] == ("verl.protocol.DataProto",)


def read(source: Source, settings: Settings) -> Iterator[Item]:
    yield from _read(source, settings, ("dataproto",))


def sniff_queue(source: Source, settings: Settings) -> bool:
    found = look(source)
    return (
        found is not None and found.torch and found.root == "EMPTY_DICT" and "tensordict" in found.texts[:4]
    )


def read_queue(source: Source, settings: Settings) -> Iterator[Item]:
    yield from _read(source, settings, ("queue",))


def _read(source: Source, settings: Settings, layouts: tuple[str, ...]) -> Iterator[Item]:
    notes = Notes()
    with inert_rows.opened(source, settings) as rows:
        inert_rows.expect(rows, layouts)
        yield Header(raw={"framework": "verl", **rows.others})
        yield from inert_rows.said(rows)
        step = rows.others.get("global_steps")
        for number, fields in rows:
            item = verl_tensors.rollout(number, fields, notes)
            if isinstance(item, Rollout):
                _set_key(item, fields.get("keys"))
                item.step = scalars.integer(number, "step", step, notes)
                names.fill(item, names.step(source, bare=True))
            yield from notes.drain()
            yield item
    yield from notes.summary()


def sniff_meta(source: Source, settings: Settings) -> bool:
    return documents.keys(source) == ("global_steps",) and documents.is_document(source)


def read_meta(source: Source, settings: Settings) -> Iterator[Item]:
    for member in documents.members(source, settings):
        yield Header(raw={member.key: documents.value(member, settings)})


def _set_key(record: Rollout, key: Any) -> None:
    """The queue's key is {prompt uuid}_{session}_{output}."""
    record.extra.pop("keys", None)
    if not isinstance(key, str):
        return
    if record.sample_id is None:
        record.sample_id = key
    if match := UID.fullmatch(key):
        record.group_id = record.group_id or match[1]
        record.rollout_id, record.segment = match[2], int(match[3])
    elif record.group_id is None:
        record.group_id = key


_DUMP = "save the batch after `compute_advantage` with `DataProto.save_to_disk`"
_ALWAYS = ("step", "group_id", "prompt_ids", "response_ids", "response_mask")
ABOUT = About(
    setting=(
        "`DataProto.save_to_disk(path)` after `compute_advantage`; `skip.rollout.enable=true` before rewards"
    ),
    files="`*.dp`; `~/.verl/rollout_dump/…/{step}/gen_batch.dp`",
    recorded=_ALWAYS,
    sometimes=(
        "rollout_log_probs", "old_log_probs", "ref_log_probs", "token_level_scores", "token_level_rewards",
        "values", "advantages", "returns", "data_source", "prompt_messages", "ground_truth", "entropies",
        "sum_pi_squared", "rollout_is_weights", "loss_weight",
    ),
    derived={
        "reward": "sum of token_level_scores", "prompt": "raw_prompt", "split": "extra_info.split",
        "step": "file name, where meta_info has no global_steps",
    },
    absent={"response": "upload the tokenizer.json, or `trainer.rollout_data_dir` for the texts"},
)  # fmt: skip
QUEUE_ABOUT = About(
    setting="`skip.rollout_tq.enable=true` (V1 trainer)",
    files="`…/{step}/{i}/tq_batch.pt`",
    recorded=(*_ALWAYS, "sample_id", "rollout_id", "segment"),
    sometimes=("rollout_log_probs", "token_level_scores", "data_source", "prompt_messages", "ground_truth"),
    derived={
        "reward": "sum of rm_scores", "prompt": "raw_prompt", "split": "extra_info.split",
        "step": "folder name, where global_steps is missing",
    },
    absent={
        name: _DUMP
        for name in (
            "advantages", "returns", "values", "old_log_probs", "ref_log_probs", "token_level_rewards",
        )
    }
    | {"response": "upload the tokenizer.json"},
)  # fmt: skip
FORMAT = Format("verl-dataproto", "verl batch (DataProto), .dp", sniff, read, about=ABOUT)
QUEUE = Format("verl-queue", "verl TransferQueue batch, .pt", sniff_queue, read_queue, about=QUEUE_ABOUT)
META = Format(
    "verl-meta", "the step of a batch that verl's rollout skip saved", sniff_meta, read_meta, companion=True,
    of=("verl-dataproto", "verl-queue"),
)  # fmt: skip
