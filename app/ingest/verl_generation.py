"""verl's offline generation (`main_generation_server`): the dataset's Parquet with a list of `responses`.

One row of the file is one prompt; each of its responses becomes a row here. There are no rewards yet.
"""

from collections.abc import Iterator
from typing import Any

from app.ingest import parquet, prompts, scalars
from app.ingest.canonical_parquet import without_nulls
from app.ingest.notes import Notes
from app.ingest.record import About, Format, Header, Item, Problem, Rollout, Source
from app.settings import Settings

MAPPED = frozenset(("prompt", "responses", "data_source", "reward_model", "extra_info"))
SCORES = ("scores", "rewards")


def sniff(source: Source, settings: Settings) -> bool:
    found = parquet.columns(source)
    return (
        found is not None
        and found >= {"prompt", "responses"}
        and not found & {"response", "completion", "advantage"}
    )


def read(source: Source, settings: Settings) -> Iterator[Item]:
    notes = Notes()
    table = parquet.checked(source, settings)
    yield Header(raw={"framework": "verl"})
    row = 1
    for number, fields in parquet.rows(table, source):
        held = fields.get("responses")
        if not isinstance(held, list) or not held:
            message = f"row {row}: no responses to prompt {number}; the row was not taken"
            yield Problem(message, "no_response", "error", row, "responses")
            row += 1
            continue
        for index, response in enumerate(held):
            yield _rollout(row, number, index, response, fields, notes)
            yield from notes.drain()
            row += 1
    yield from notes.summary()


def _rollout(
    row: int, number: int, index: int, response: Any, fields: dict[str, Any], notes: Notes
) -> Rollout | Problem:
    if not isinstance(response, str):
        message = f"row {row}: a response is no text; the row was not taken"
        return Problem(message, "no_response", "error", row, "responses")
    record = Rollout(row, response=response, group_id=str(number - 1), sample_index=index)
    record.derived["group_id"] = "derived:row of the file"
    prompt = fields.get("prompt")
    prompts.set_prompt(
        record, [without_nulls(part) for part in prompt] if isinstance(prompt, list) else prompt, notes
    )
    record.data_source = scalars.text(row, "data_source", fields.get("data_source"), notes)
    rule, info = (without_nulls(fields.get(name)) for name in ("reward_model", "extra_info"))
    if isinstance(rule, dict):
        record.ground_truth = scalars.text(row, "ground_truth", rule.get("ground_truth"), notes)
        if rest := {name: value for name, value in rule.items() if name != "ground_truth"}:
            record.extra["reward_model"] = rest
    if isinstance(info, dict):
        record.extra["extra_info"] = info
        if isinstance(info.get("split"), str):
            record.split, record.derived["split"] = info["split"], "derived:extra_info.split"
    for name, value in fields.items():
        if name in SCORES and isinstance(value, list) and len(value) == len(fields["responses"]):
            record.reward = scalars.number(row, "reward", value[index], notes)
        elif name not in MAPPED:
            record.extra[name] = value
    return record


ABOUT = About(
    setting="`python -m verl.trainer.main_generation_server` (`data.output_path`)",
    files="`*.parquet`: the dataset's columns and `responses`",
    recorded=("response", "sample_index"),
    sometimes=("prompt", "prompt_messages", "data_source", "ground_truth", "reward"),
    derived={"group_id": "row of the file", "prompt": "messages", "split": "extra_info.split"},
    absent={
        name: "generation alone measures none; `trainer.rollout_data_dir` of a training run has scores"
        for name in ("step", "response_ids", "response_mask", "rollout_log_probs", "advantages")
    },
)
FORMAT = Format("verl-generation", "verl offline generation, Parquet", sniff, read, about=ABOUT)
