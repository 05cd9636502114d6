"""ROLL's rollout dump (`rollout_dump_dir`): rollout_dump_data.step_{N}.jsonl, one line of lists.

The group is `id`. Messages and sampling parameters are JSON inside text. The agentic pipeline writes one
trajectory an entry: messages, tools and `trajectory_data` as JSON inside text, null where an entry is no
trajectory; its reward is `reward_info.episode_reward`.
"""

import json
from collections.abc import Iterator
from typing import Any

from app.ingest import columns, jsonl, names, prompts, scalars
from app.ingest.notes import Notes
from app.ingest.record import About, Format, Header, Item, Problem, Rollout, Source
from app.settings import Settings

MARKS = frozenset(("responses", "scores", "global_step"))
AGENTIC = frozenset(("trajectory_data", "global_step"))
MAPPED = frozenset((
    *MARKS, "id", "source", "prompt", "messages", "ground_truth",
))  # fmt: skip


def sniff(source: Source, settings: Settings) -> bool:
    row = jsonl.first_row(source, settings)
    if row is None:
        return False
    judge = "responses" if row.keys() >= MARKS else "trajectory_data" if row.keys() >= AGENTIC else None
    return judge is not None and isinstance(row[judge], list)


def read(source: Source, settings: Settings) -> Iterator[Item]:
    step, split = names.step(source), names.split(source)

    def convert(
        row: int, fields: dict[str, Any], header: dict[str, Any], notes: Notes
    ) -> Iterator[Rollout | Problem]:
        judge = "responses" if "responses" in fields else "trajectory_data"
        make = _rollout if judge == "responses" else _trajectory
        if not isinstance(fields.get(judge), list):
            yield Problem(f"row {row}: {judge} is no list; not taken", "bad_columns", "error", row, judge)
            return
        for one in columns.transposed(row, fields, judge, notes):
            if one[judge] is None and judge == "trajectory_data":
                notes.tally(row, judge, "no_trajectory", "entries without a trajectory were passed over")
                continue
            item = make(row, one, notes)
            if isinstance(item, Rollout):
                names.fill(item, step, split)
            yield item
            row += 1

    yield from jsonl.read_many(source, settings, convert, Header(raw={"framework": "roll"}))


def _rollout(row: int, fields: dict[str, Any], notes: Notes) -> Rollout | Problem:
    record = Rollout(row)
    response = fields.get("responses")
    if response is None or not prompts.set_response(record, response, notes):
        message = f"row {row}: no response; the row was not taken"
        return Problem(message, "no_response", "error", row, "responses")
    messages = _parsed(fields.get("messages"))
    if prompts.is_messages(messages) and messages:
        record.prompt_messages = messages
    elif messages is not None:
        record.extra["messages"] = messages
    record.prompt = scalars.text(row, "prompt", fields.get("prompt"), notes)
    record.reward = scalars.number(row, "reward", fields.get("scores"), notes)
    record.step = scalars.integer(row, "step", fields.get("global_step"), notes)
    record.data_source = scalars.text(row, "data_source", fields.get("source"), notes)
    record.ground_truth = scalars.text(row, "ground_truth", fields.get("ground_truth"), notes)
    if found := scalars.typed_id(fields.get("id")):
        record.group_id, kind = found
        if kind != "text":
            record.extra["group_id_type"] = kind
    record.extra |= {name: value for name, value in fields.items() if name not in MAPPED}
    return record


def _trajectory(row: int, fields: dict[str, Any], notes: Notes) -> Rollout | Problem:
    record = Rollout(row)
    data = _parsed(fields.get("trajectory_data"))
    data = data if isinstance(data, dict) else {"trajectory_data": data}
    messages = _parsed(fields.get("messages", data.get("messages")))
    if not prompts.is_messages(messages) or not messages:
        message = f"row {row}: the trajectory has no messages; the row was not taken"
        return Problem(message, "no_response", "error", row, "messages")
    first = prompts.first_answer(messages)
    prompts.set_prompt(record, messages[:first], notes)
    prompts.set_response(record, messages[first:], notes)
    info = data.get("reward_info")
    if isinstance(info, dict):
        record.reward = scalars.number(row, "reward", info.get("episode_reward"), notes)
    record.step = scalars.integer(row, "step", fields.get("global_step"), notes)
    rest = {name: value for name, value in fields.items() if name not in ("messages", "global_step")}
    record.extra = rest | {"trajectory_data": data, "tools": _parsed(fields.get("tools"))}
    return record


def _parsed(value: Any) -> Any:
    """What JSON inside text says; other values, and other texts, as they are."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value


ABOUT = About(
    setting="`rollout_dump_dir` (an absolute path)",
    files="`rollout_dump_data.step_{N}.jsonl`",
    recorded=(
        "step", "group_id", "prompt", "prompt_messages", "response", "reward", "data_source", "ground_truth",
    ),
    sometimes=("messages",),
    derived={"prompt": "messages (agentic)", "response": "messages (agentic)", "split": "file name"},
    absent={
        name: "`save_logging_board_dir`"
        for name in (
            "response_tokens", "response_mask", "old_log_probs", "ref_log_probs", "token_level_rewards",
            "entropies",
        )
    }
    | {"advantages": "", "returns": "", "values": ""},
)  # fmt: skip
FORMAT = Format("roll-dump", "ROLL rollout dump, JSONL", sniff, read, about=ABOUT)
