"""TRL's completions Parquet (`log_completions=True`): completions/completions_{step:05d}.parquet.

Columns: step, prompt, completion (text or chat messages), one double column per reward function, what the
user logged besides, advantage. The file has no total reward (the weights are in the trainer's configuration)
and no group id: rewards are summed with weights 1 and groups are runs of identical prompts; both are named as
derived.
"""

import re
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from app.ingest import completions, parquet
from app.ingest.canonical_parquet import without_nulls
from app.ingest.notes import Notes
from app.ingest.record import About, Format, Header, Item, Rollout, Source
from app.settings import Settings

TEXTS = ("prompt", "completion")
MARKS = frozenset(("prompt", "completion", "advantage"))
_STEP = re.compile(r"completions_(\d+)\.parquet$")


def sniff(source: Source, settings: Settings) -> bool:
    names = parquet.columns(source)
    return names is not None and names >= MARKS and "response" not in names


def read(source: Source, settings: Settings) -> Iterator[Item]:
    notes = Notes()
    table = parquet.checked(source, settings)
    rewards = reward_columns(table.schema)
    provenance = {"reward": completions.REWARD_RULE} if rewards else {}
    yield Header(raw={"framework": "trl", "reward_functions": rewards, "provenance": provenance})
    if rewards:
        yield completions.said(rewards)
    named = _STEP.search(source.name)
    for number, fields in parquet.rows(table, source):
        plain = {name: _messages(value) if name in TEXTS else value for name, value in fields.items()}
        item = completions.rollout(number, plain, rewards, notes, nan_is_null=False)
        if isinstance(item, Rollout) and item.step is None and named:
            item.step, item.derived["step"] = int(named[1]), "derived:file name"
        yield from notes.drain()
        yield item
    yield from notes.summary()


def reward_columns(schema: pa.Schema) -> list[str]:
    """The double columns that follow the completion: TRL writes its reward functions there, before what users
    log.
    """
    names: list[str] = []
    for field in schema:
        if field.name in completions.FIXED:
            continue
        if not pa.types.is_floating(field.type):
            break
        names.append(field.name)
    return names


def _messages(value: Any) -> Any:
    return [without_nulls(item) for item in value] if isinstance(value, list) else value


ABOUT = About(
    setting="`log_completions=True` (GRPO and distillation; Parquet since v0.28)",
    files="`{output_dir}/completions/completions_{step:05d}.parquet`",
    recorded=("step", "advantage"),
    sometimes=("prompt", "response", "prompt_messages", "messages", "reward_components"),
    derived={
        "reward": "sum of the reward functions with weights 1", "group_id": "runs of identical prompts",
        "prompt": "messages", "response": "messages", "step": "file name, where a row has none",
    },
    absent={
        name: "no setting of TRL; record them with the client of Vantage"
        for name in ("response_ids", "response_mask", "rollout_log_probs", "old_log_probs", "advantages")
    }
    | {"ground_truth": "`log_extra`", "split": "", "data_source": "`log_extra`"},
)  # fmt: skip
FORMAT = Format("trl-parquet", "TRL completions, Parquet", sniff, read, groups="adjacent", about=ABOUT)
