"""verl's rollout dumps (`trainer.rollout_data_dir`, `trainer.validation_data_dir`): {step}.jsonl, a row a
sample.

The legacy trainer writes no group id and shuffles rows: groups are identical prompts of a step, named as
derived. The v1 trainer writes uid = {prompt uuid}_{session}_{output}: the group is before the last two "_".
Neither writes ids, masks, log-probs or advantages. `score` is before any KL penalty.
"""

import re
from collections.abc import Iterator
from typing import Any

from app.ingest import canonical, jsonl, names, prompts, scalars
from app.ingest.json_rows import a_kind
from app.ingest.notes import Notes
from app.ingest.record import About, Format, Header, Item, Problem, Rollout, Source
from app.settings import Settings

MARKS = frozenset(("input", "output", "score"))
MAPPED = frozenset(("input", "output", "gts", "score", "step", "uid"))
#: Extras that are a reward in parts; other numbers beside the score (acc, pred …) stay extras.
PARTS = ("score_parts", "reward_parts", "reward_components")
UID = re.compile(r"(.+)_(\d+)_(\d+)")
_STEP = re.compile(r"(?:^|/)(\d+)\.jsonl$")
_VALIDATION = re.compile(r"(?:^|[/_-])val(?:id|idation)?(?:[/_-]|$)")


def sniff(source: Source, settings: Settings) -> bool:
    row = jsonl.first_row(source, settings)
    return row is not None and row.keys() >= MARKS and "response" not in row


def read(source: Source, settings: Settings) -> Iterator[Item]:
    step = _STEP.search(source.name)
    validation = _VALIDATION.search(names.folder_of(source.trail)) is not None

    def convert(row: int, fields: dict[str, Any], header: dict[str, Any], notes: Notes) -> Rollout | Problem:
        item = _rollout(row, fields, notes)
        if isinstance(item, Rollout):
            if item.step is None and step:
                item.step, item.derived["step"] = int(step[1]), "derived:file name"
            _set_split(item, validation)
        return item

    yield from jsonl.read(source, settings, convert, Header(raw={"framework": "verl"}))


def _rollout(row: int, fields: dict[str, Any], notes: Notes) -> Rollout | Problem:
    record = Rollout(row)
    output = fields.get("output")
    if not isinstance(output, str):
        message = f"row {row}: output is {a_kind(output)}, not text; the row was not taken"
        return Problem(message, "no_response", "error", row, "output")
    record.response = output
    prompts.set_prompt(record, fields.get("input"), notes)
    record.reward = scalars.number(row, "score", fields.get("score"), notes)
    record.step = scalars.integer(row, "step", fields.get("step"), notes)
    record.ground_truth = scalars.text(row, "ground_truth", fields.get("gts"), notes)
    _set_group(record, fields.get("uid"))
    for name, value in fields.items():
        if name in PARTS and record.reward_components is None and _is_parts(value):
            record.reward_components = canonical.reward_components(row, value, notes)
        elif name not in MAPPED:
            record.extra[name] = value
    return record


def _set_group(record: Rollout, uid: Any) -> None:
    found = scalars.typed_id(uid)
    if found is None:
        return
    record.group_id, kind = found
    if kind != "text":
        record.extra["group_id_type"] = kind
    elif match := UID.fullmatch(record.group_id):
        record.sample_id = record.group_id
        record.group_id, record.rollout_id, record.segment = match[1], match[2], int(match[3])


def _is_parts(value: Any) -> bool:
    """Whether an extra names the parts of a reward: an object of nothing but numbers."""
    numbers = (int, float, type(None))
    return (
        isinstance(value, dict) and bool(value) and all(isinstance(part, numbers) for part in value.values())
    )


def _set_split(record: Rollout, validation: bool) -> None:
    """The split is only in the folder's name; but validation rows alone carry `reward` beside `score`."""
    if validation:
        record.split, record.derived["split"] = "val", "derived:folder name"
    elif "reward" in record.extra:
        record.split, record.derived["split"] = "val", "derived:reward beside score"
    else:
        record.split, record.derived["split"] = "train", "derived:no reward beside score"


_BATCH = "save the batch after its advantages (`DataProto.save_to_disk`, or the client of Vantage)"
ABOUT = About(
    setting="`trainer.rollout_data_dir=DIR`, `trainer.validation_data_dir=DIR`",
    files="`{dir}/{global_step}.jsonl`",
    recorded=("step", "prompt", "response", "reward", "ground_truth"),
    sometimes=("group_id", "sample_id", "rollout_id", "segment", "reward_components"),
    derived={
        "split": "folder name, or a reward beside the score",
        "group_id": "identical prompts (legacy trainer, which shuffles rows)",
        "step": "file name, where a row has none",
    },
    absent={
        name: _BATCH
        for name in (
            "response_ids", "response_mask", "rollout_log_probs", "old_log_probs", "ref_log_probs", "values",
            "advantages", "returns", "token_level_rewards",
        )
    }
    | {"data_source": ""},
)  # fmt: skip
FORMAT = Format("verl-jsonl", "verl rollout or validation dump, JSONL", sniff, read, about=ABOUT)
