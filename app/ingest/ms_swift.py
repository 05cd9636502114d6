"""ms-swift's completions.jsonl (`--log_completions true`): a line for each logging step, columns are lists.

The Ray-Megatron trainer writes one sample a line under the same name; both are read. The step is text. A
reward function that was skipped wrote NaN. There is no total reward and no group id: rewards are summed with
weights 1 and groups are runs of identical prompts; both are named as derived.
"""

from collections.abc import Iterator
from typing import Any

from app.ingest import columns, completions, jsonl
from app.ingest.json_rows import a_kind
from app.ingest.notes import Notes
from app.ingest.record import About, Format, Header, Item, Problem, Rollout, Source
from app.settings import Settings

MARKS = frozenset(("prompt", "completion", "advantages"))


def sniff(source: Source, settings: Settings) -> bool:
    row = jsonl.first_row(source, settings)
    return row is not None and row.keys() >= MARKS


def read(source: Source, settings: Settings) -> Iterator[Item]:
    first = jsonl.first_row(source, settings) or {}
    rewards = reward_columns(first)
    provenance = {"reward": completions.REWARD_RULE} if rewards else {}
    header = {"framework": "ms-swift", "reward_functions": rewards, "provenance": provenance}

    def convert(
        row: int, fields: dict[str, Any], header: dict[str, Any], notes: Notes
    ) -> Iterator[Rollout | Problem]:
        if not isinstance(fields.get("completion"), list):
            yield completions.rollout(row, fields, rewards, notes)
            return
        if not isinstance(fields.get("prompt"), list):
            message = f"row {row}: prompt is {a_kind(fields.get('prompt'))}, completion a list; not taken"
            yield Problem(message, "bad_columns", "error", row, "prompt")
            return
        for number, one in enumerate(columns.transposed(row, fields, "completion", notes)):
            yield completions.rollout(row + number, one, rewards, notes)

    for item in jsonl.read_many(source, settings, convert, Header(raw=header)):
        yield item
        if isinstance(item, Header) and rewards:
            yield completions.said(rewards)


def reward_columns(first: dict[str, Any]) -> list[str]:
    """The columns of numbers between the completion and the advantages; all of numbers where none are."""
    names = list(first)
    one = {
        name: next((item for item in value if item is not None), None) if isinstance(value, list) else value
        for name, value in first.items()
    }
    start, stop = names.index("completion") + 1, names.index("advantages")
    between = names[start:stop] if start < stop else [name for name in names if name != "entropy"]
    return completions.reward_names(between, one)


ABOUT = About(
    setting="`--log_completions true`",
    files="`{output_dir}/completions.jsonl`, appended",
    recorded=("step", "prompt", "response", "reward_components", "advantage"),
    derived={
        "reward": "sum of the reward functions with weights 1", "group_id": "runs of identical prompts",
    },
    absent={
        "response_ids": "", "response_mask": "", "rollout_log_probs": "", "advantages": "", "split": "",
        "data_source": "",
    },
)  # fmt: skip
FORMAT = Format("ms-swift", "ms-swift completions, JSONL", sniff, read, groups="adjacent", about=ABOUT)
