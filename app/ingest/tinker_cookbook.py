"""tinker-cookbook's summaries: {log_path}/iteration_{i:06d}/train_rollout_summaries.jsonl, one a row.

Lengths and rewards only: no text, no ids. The reward is `total_reward`; its parts are those of the steps and
the final one. The log tree beside it (train_logtree.json) shows texts of the first groups for reading; they
cannot be matched to rows with certainty and are not read.
"""

from collections.abc import Iterator
from typing import Any

from app.ingest import documents, jsonl, scalars
from app.ingest.notes import Notes
from app.ingest.record import About, Format, Header, Item, Problem, Rollout, Source
from app.settings import Settings

MARKS = frozenset(("group_idx", "traj_idx", "total_reward"))
TREE = frozenset(("title", "started_at", "root"))
MAPPED = (*MARKS, "split", "iteration", "tags", "sampling_client_step", "final_reward", "schema_version")


def sniff(source: Source, settings: Settings) -> bool:
    row = jsonl.first_row(source, settings)
    return row is not None and row.keys() >= MARKS


def read(source: Source, settings: Settings) -> Iterator[Item]:
    yield from jsonl.read(source, settings, _rollout, Header(raw={"framework": "tinker-cookbook"}))


def _rollout(row: int, fields: dict[str, Any], header: dict[str, Any], notes: Notes) -> Rollout | Problem:
    record = Rollout(row)
    record.step = scalars.integer(row, "step", fields.get("iteration"), notes)
    split = fields.get("split")
    if isinstance(split, str):
        record.split = "val" if split.startswith("eval") else split
        if record.split != split:
            record.extra["split"] = split
    if found := scalars.typed_id(fields.get("group_idx")):
        record.group_id, record.extra["group_id_type"] = found
    record.sample_index = scalars.integer(row, "sample_index", fields.get("traj_idx"), notes)
    version = fields.get("sampling_client_step")
    record.policy_version = scalars.integer(row, "policy_version", version, notes)
    record.reward = scalars.number(row, "reward", fields.get("total_reward"), notes)
    tags = fields.get("tags")
    if isinstance(tags, list) and tags and all(isinstance(tag, str) for tag in tags):
        record.data_source = ", ".join(tags)
    record.reward_components = _parts(row, fields, notes)
    record.extra |= {name: value for name, value in fields.items() if name not in MAPPED}
    return record


def _parts(row: int, fields: dict[str, Any], notes: Notes) -> dict[str, float | None] | None:
    """The rewards of the steps and the final one, which add up to the total."""
    parts: dict[str, float | None] = {}
    steps = fields.get("steps")
    for number, step in enumerate(steps if isinstance(steps, list) else ()):
        if isinstance(step, dict) and step.get("reward") is not None:
            parts[f"step {number}"] = scalars.number(row, "reward of a step", step["reward"], notes)
    if fields.get("final_reward") is not None:
        parts["final"] = scalars.number(row, "final_reward", fields["final_reward"], notes)
    return parts or None


def sniff_tree(source: Source, settings: Settings) -> bool:
    return set(documents.keys(source)) >= TREE and documents.is_document(source)


def read_tree(source: Source, settings: Settings) -> Iterator[Item]:
    raw = {}
    for member in documents.members(source, settings):
        if member.key in ("title", "started_at"):
            raw[member.key] = documents.value(member, settings)
    yield Header(raw={"logtree": raw})


ABOUT = About(
    setting="`rollout_json_export` (on by default)",
    files="`{log_path}/iteration_{i:06d}/train_rollout_summaries.jsonl`, `eval_{name}_…`, `…_logtree.json`",
    recorded=(
        "step", "split", "group_id", "sample_index", "policy_version", "reward", "reward_components",
        "data_source",
    ),
    absent={
        name: "not written anywhere"
        for name in ("prompt", "response", "response_ids", "response_mask", "rollout_log_probs", "advantages")
    },
)  # fmt: skip
FORMAT = Format("tinker-summaries", "tinker-cookbook rollout summaries, JSONL", sniff, read, about=ABOUT)
TREE_FORMAT = Format(
    "tinker-logtree", "a tinker-cookbook log tree, whose texts are for reading only", sniff_tree, read_tree,
    companion=True, of=("tinker-summaries",),
)  # fmt: skip
