"""W&B tables of trainers: TRL's and ms-swift's completions, verl's val/generations, OpenRLHF's samples.

TRL logs a table at every step. verl's is wide (step, input_1, output_1, score_1, input_2 …: a row is one
validation), OpenRLHF's has the first sample of each step with prompt and response in one text; both are
cumulative: each file repeats all rows before it. A row is told by its step and its place, so that of several
files each row is taken once.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any

from app.ingest import completions, prompts, scalars, tables
from app.ingest.notes import Notes
from app.ingest.record import About, Format, Header, Item, Problem, Rollout, Source
from app.settings import Settings

COMPLETIONS = frozenset(("prompt", "completion"))
SAMPLES = ("global_step", "text", "reward")
PLACE_RULE = "derived:step and place in the table"
PARTS = ("input", "output", "score", "label", "gts", "gt")
WIDE = re.compile(rf"({'|'.join(PARTS)})_(\d+)")
ADVANTAGES = frozenset(("advantage", "advantages"))


def sniff_completions(source: Source, settings: Settings) -> bool:
    names = set(tables.columns(source, settings))
    return names >= COMPLETIONS and bool(names & (ADVANTAGES | {"step", "gen_step"}))


def sniff_generations(source: Source, settings: Settings) -> bool:
    return {"step", "input_1", "output_1", "score_1"} <= set(tables.columns(source, settings))


def sniff_samples(source: Source, settings: Settings) -> bool:
    return tables.columns(source, settings) == SAMPLES


def read_completions(source: Source, settings: Settings) -> Iterator[Item]:
    names = tables.columns(source, settings)
    first = next(tables.rows(source, settings), None) or {}
    after = names[names.index("completion") + 1 :]
    rewards = completions.reward_names(after, first)
    provenance = {"reward": completions.REWARD_RULE} if rewards else {}
    yield Header(raw={"framework": "trl", "reward_functions": rewards, "provenance": provenance})
    if rewards:
        yield completions.said(rewards)
    notes, places = Notes(), dict[int | None, int]()
    for row, fields in enumerate(tables.rows(source, settings), 1):
        item = _bad(row) if fields is None else completions.rollout(row, fields, rewards, notes)
        if isinstance(item, Rollout):
            places[item.step] = places.get(item.step, 0) + 1
            _place(item, places[item.step])
        yield from notes.drain()
        yield item
    yield from notes.summary()


def _bad(row: int) -> Problem:
    message = f"row {row}: it has another number of entries than the table has columns; it was not taken"
    return Problem(message, "bad_row", "error", row)


def _place(record: Rollout, place: int) -> None:
    record.sample_id, record.derived["sample_id"] = f"step {record.step} row {place}", PLACE_RULE


def read_generations(source: Source, settings: Settings) -> Iterator[Item]:
    yield Header(raw={"framework": "verl"})
    names = tables.columns(source, settings)
    numbers = sorted({int(match[2]) for name in names if (match := WIDE.fullmatch(name))})
    notes, row = Notes(), 0
    for fields in tables.rows(source, settings):
        for item in validation(row + 1, fields, numbers, notes):
            row += 1
            yield from notes.drain()
            yield item
    yield from notes.summary()


def validation(
    row: int, fields: dict[str, Any] | None, numbers: Sequence[int], notes: Notes
) -> Iterator[Rollout | Problem]:
    """The samples of one validation; places that are empty in it were not logged."""
    if fields is None:
        yield _bad(row)
        return
    others = {name: value for name, value in fields.items() if name != "step" and not WIDE.fullmatch(name)}
    for number in numbers:
        one = {
            name: fields.get(f"{name}_{number}")
            for name in ("input", "output", "score", "label", "gts", "gt")
        }
        if one["input"] is None and one["output"] is None:
            continue
        record = Rollout(row, split="val", extra=dict(others))
        record.derived["split"] = "derived:a validation"
        prompts.set_prompt(record, one["input"], notes)
        if one["output"] is None or not prompts.set_response(record, one["output"], notes):
            yield Problem(f"row {row}: no output; the row was not taken", "no_response", "error", row)
            row += 1
            continue
        record.step = scalars.integer(row, "step", fields.get("step"), notes)
        record.reward = scalars.number(row, "reward", one["score"], notes)
        truth = next((one[name] for name in ("label", "gts", "gt") if one[name] is not None), None)
        record.ground_truth = scalars.text(row, "ground_truth", truth, notes)
        _place(record, number)
        yield record
        row += 1


def read_samples(source: Source, settings: Settings) -> Iterator[Item]:
    yield Header(raw={"framework": "openrlhf"})
    message = "text holds prompt and response in one: it is shown whole, as the response"
    yield Problem(message, "prompt_in_response", "info", None, "response")
    notes = Notes()
    for row, fields in enumerate(tables.rows(source, settings), 1):
        text = None if fields is None else fields["text"]
        if fields is None or not isinstance(text, str):
            yield _bad(row)
            continue
        record = Rollout(row, response=text)
        record.step = scalars.integer(row, "step", fields["global_step"], notes)
        record.reward = scalars.number(row, "reward", fields["reward"], notes)
        _place(record, 1)
        yield from notes.drain()
        yield record
    yield from notes.summary()


_NO_TOKENS = ("response_ids", "response_mask", "rollout_log_probs", "advantages", "values")
FORMAT = Format(
    "wandb-completions", "W&B table of TRL completions", sniff_completions, read_completions,
    groups="adjacent",
    about=About(
        setting="TRL: `log_completions=True` with W&B; ms-swift: `--log_completions true`",
        files="`wandb/run-*/files/media/table/completions_*.table.json`",
        recorded=("prompt", "response"),
        sometimes=("step", "advantage", "reward_components"),
        derived={
            "reward": "sum of the reward functions with weights 1", "group_id": "runs of identical prompts",
            "sample_id": "step and place in the table",
        },
        absent={name: "" for name in _NO_TOKENS},
    ),
)  # fmt: skip
GENERATIONS = Format(
    "wandb-generations", "W&B table of verl's val/generations", sniff_generations, read_generations,
    about=About(
        setting="`trainer.log_val_generations = N`",
        files="`wandb/run-*/files/media/table/val/generations_*.table.json`, each with all rows before it",
        recorded=("step", "prompt", "response", "reward"),
        sometimes=("ground_truth",),
        derived={
            "split": "a validation", "group_id": "identical prompts",
            "sample_id": "step and place in the table",
        },
        absent={name: "" for name in _NO_TOKENS}
        | {"data_source": "`trainer.validation_data_dir` writes every sample"},
    ),
)  # fmt: skip
SAMPLES_FORMAT = Format(
    "wandb-samples", "W&B table of OpenRLHF's generated samples", sniff_samples, read_samples,
    about=About(
        setting="OpenRLHF with `--use_wandb`",
        files="`wandb/run-*/files/media/table/train/generated_samples_*.table.json`: one sample a step",
        recorded=("step", "response", "reward"),
        derived={"group_id": "none: a row stands alone", "sample_id": "step and place in the table"},
        absent={name: "" for name in (*_NO_TOKENS, "prompt", "split")},
    ),
)  # fmt: skip
