"""AReaL's trajectory dump: {fileroot}/logs/…/rollout/{tail_version}/{task_id}.jsonl, a row a sample.

The step is close to `tail_version`, the newest policy in the sample. Task ids begin anew when a job restarts
and appends: where a sample of a task comes a second time, a second group begins. Where a rollout has several
turns, AReaL cuts prompt and completion at the wrong place: the prompts of one task then differ.
"""

from collections.abc import Iterator
from typing import Any

from app.ingest import jsonl, scalars
from app.ingest.json_rows import a_kind
from app.ingest.names import FOLDER
from app.ingest.notes import Notes
from app.ingest.record import About, Format, Header, Item, Problem, Rollout, Source
from app.settings import Settings

MARKS = frozenset(("task_id", "head_version", "tail_version", "completion"))
MAPPED = ("task_id", "sample_idx", "tail_version", "reward", "prompt", "completion")


def sniff(source: Source, settings: Settings) -> bool:
    row = jsonl.first_row(source, settings)
    return row is not None and row.keys() >= MARKS


def read(source: Source, settings: Settings) -> Iterator[Item]:
    tasks = _Tasks()
    folders = source.trail.split("/")[:-1]
    split = "val" if "eval-rollout" in folders else "train" if "rollout" in folders else None

    def convert(row: int, fields: dict[str, Any], header: dict[str, Any], notes: Notes) -> Rollout | Problem:
        item = _rollout(row, fields, notes)
        if isinstance(item, Rollout):
            tasks.look(item, notes)
            if split is not None:
                item.split, item.derived["split"] = split, FOLDER
        return item

    yield from jsonl.read(source, settings, convert, Header(raw={"framework": "areal"}))


def _rollout(row: int, fields: dict[str, Any], notes: Notes) -> Rollout | Problem:
    record = Rollout(row)
    completion = fields.get("completion")
    if not isinstance(completion, str):
        message = f"row {row}: completion is {a_kind(completion)}, not text; the row was not taken"
        return Problem(message, "no_response", "error", row, "completion")
    record.response = completion
    record.prompt = scalars.text(row, "prompt", fields.get("prompt"), notes)
    record.reward = scalars.number(row, "reward", fields.get("reward"), notes)
    record.sample_index = scalars.integer(row, "sample_index", fields.get("sample_idx"), notes)
    record.policy_version = scalars.integer(row, "policy_version", fields.get("tail_version"), notes)
    if record.policy_version is not None:
        record.step, record.derived["step"] = record.policy_version, "derived:tail_version"
    if found := scalars.typed_id(fields.get("task_id")):
        record.group_id, kind = found
        record.extra["group_id_type"] = kind
    record.extra |= {name: value for name, value in fields.items() if name not in MAPPED}
    return record


class _Tasks:
    """What was seen of each task of the file: its samples, and its prompt."""

    def __init__(self) -> None:
        self._seen: dict[str, set[int]] = {}
        self._times: dict[str, int] = {}
        self._prompts: dict[str, int] = {}

    def look(self, record: Rollout, notes: Notes) -> None:
        task = record.group_id
        if task is None:
            return
        seen = self._seen.setdefault(task, set())
        if record.sample_index is not None and record.sample_index in seen:
            self._times[task] = self._times.get(task, 1) + 1
            seen.clear()
            self._prompts.pop(task, None)
        if record.sample_index is not None:
            seen.add(record.sample_index)
        if (times := self._times.get(task, 1)) > 1:
            record.group_id = f"{task} time {times}"
            record.derived["group_id"] = "derived:task_id and its repetition"
            message = "a sample of this task was in the file before: task ids began anew, a group of its own"
            notes.tally(record.row, "group_id", "task_repeated", message, "warning")
        prompt = hash(record.prompt)
        if self._prompts.setdefault(task, prompt) != prompt:
            message = (
                "prompts of one task differ: with several turns AReaL cuts prompt and completion at the "
                "wrong place; only both together are right"
            )
            notes.tally(record.row, "prompt", "prompt_cut", message, "warning")


ABOUT = About(
    setting="`rollout.dump_to_file = true` (with `fileroot` and `tokenizer_path`)",
    files="`{fileroot}/logs/{user}/{exp}/{trial}/rollout/{version}/{task_id}.jsonl`, `eval-rollout/…`",
    recorded=("group_id", "prompt", "response", "reward", "sample_index", "policy_version"),
    derived={
        "step": "`tail_version`", "split": "folder name", "group_id": "`task_id` and its repetition",
    },
    absent={
        "response_ids": "", "response_mask": "", "rollout_log_probs": "", "advantages": "",
        "ground_truth": "", "data_source": "",
    },
)  # fmt: skip
FORMAT = Format("areal-rollouts", "AReaL trajectory dump, JSONL", sniff, read, about=ABOUT)
