"""Agent Lightning's W&B artifacts: step_{n}/{train|validation}_trajectories.jsonl.zip, a row a rollout.

Prompt and response are of the last turn only. Step and split are in the names of folder and file. There is no
group id: groups are identical prompts. With verl underneath, verl's own dumps have more.
"""

from collections.abc import Iterator
from typing import Any

from app.ingest import jsonl, names, prompts, scalars
from app.ingest.json_rows import a_kind
from app.ingest.looks import AGENT_LIGHTNING, is_agent_lightning
from app.ingest.notes import Notes
from app.ingest.record import About, Format, Header, Item, Problem, Rollout, Source
from app.settings import Settings


def sniff(source: Source, settings: Settings) -> bool:
    row = jsonl.first_row(source, settings)
    return row is not None and is_agent_lightning(row)


def read(source: Source, settings: Settings) -> Iterator[Item]:
    step, split = names.step(source), names.split(source)

    def convert(row: int, fields: dict[str, Any], header: dict[str, Any], notes: Notes) -> Rollout | Problem:
        record = Rollout(row)
        response = fields.get("response")
        if response is None or not prompts.set_response(record, response, notes):
            message = f"row {row}: response is {a_kind(response)}, not text; the row was not taken"
            return Problem(message, "no_response", "error", row, "response")
        prompts.set_prompt(record, fields.get("prompt"), notes)
        record.reward = scalars.number(row, "reward", fields.get("reward"), notes)
        record.rollout_id = scalars.text(row, "rollout_id", fields.get("rollout_id"), notes)
        record.extra = {name: value for name, value in fields.items() if name not in AGENT_LIGHTNING}
        names.fill(record, step, split)
        return record

    yield from jsonl.read(source, settings, convert, Header(raw={"framework": "agent-lightning"}))


ABOUT = About(
    setting="the W&B logger of the trainer",
    files="`step_{n}/{train|validation}_trajectories.jsonl.zip`",
    recorded=("rollout_id", "prompt", "response", "reward"),
    derived={"step": "folder name", "split": "file name", "group_id": "identical prompts"},
    absent={
        name: "with verl underneath: `trainer.rollout_data_dir`" for name in ("ground_truth",)
    } | {
        name: "save verl's batch after its advantages are computed"
        for name in ("response_ids", "response_mask", "rollout_log_probs", "advantages", "values")
    },
)  # fmt: skip
FORMAT = Format("agent-lightning", "Agent Lightning trajectories, JSONL", sniff, read, about=ABOUT)
