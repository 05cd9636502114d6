"""Output of an OpenAI-style batch API: a request a line, `response.body.choices[]`, with token log-probs.

Token texts and log-probs, no ids; the token that ends a response is not in it. There is no prompt, no reward
and no step. Choices of one request are a group; else requests whose `custom_id` is the same up to its last
number, where a number stands before that one, too. Both are named as derived.
"""

import re
from collections.abc import Iterator
from typing import Any

from app.ingest import jsonl, prompts, scalars, token_texts
from app.ingest.notes import Notes
from app.ingest.record import About, Format, Header, Item, Problem, Rollout, Source
from app.settings import Settings

MARKS = frozenset(("custom_id", "response"))
#: {prompt}-{sample}: the sample's number is the last, and the prompt has one of its own.
_NUMBERED = re.compile(r"(.*\d.*?)[-_/:.#]+(?:sample|rollout|epoch|s|r|n)?[-_]?(\d+)")


def sniff(source: Source, settings: Settings) -> bool:
    row = jsonl.first_row(source, settings)
    return row is not None and row.keys() >= MARKS and isinstance(row["response"], (dict, type(None)))


def read(source: Source, settings: Settings) -> Iterator[Item]:
    yield from jsonl.read_many(source, settings, _request, Header(raw={"framework": "batch-api"}))


def _request(
    row: int, fields: dict[str, Any], header: dict[str, Any], notes: Notes
) -> Iterator[Rollout | Problem]:
    response = fields.get("response")
    body = response.get("body") if isinstance(response, dict) else None
    choices = body.get("choices") if isinstance(body, dict) else None
    if not isinstance(body, dict) or not isinstance(choices, list) or not choices:
        why = _error(fields.get("error") or (body.get("error") if isinstance(body, dict) else None))
        message = f"row {row}: the request {fields.get('custom_id')} has no choices{why}; it was not taken"
        yield Problem(message, "no_response", "error", row, "response")
        return
    for number, choice in enumerate(choices):
        yield _rollout(row + number, fields, body, choice, number if len(choices) > 1 else None, notes)


def _error(error: Any) -> str:
    if isinstance(error, dict):
        error = error.get("message") or error.get("code")
    return f" ({str(error)[:200]})" if error else ""


def _rollout(
    row: int, fields: dict[str, Any], body: dict[str, Any], choice: Any, number: int | None, notes: Notes
) -> Rollout | Problem:
    record = Rollout(row)
    choice = choice if isinstance(choice, dict) else {}
    message = choice.get("message")
    text = choice.get("text")
    if isinstance(message, dict):
        record.messages = [message]
        text = prompts.content(message)
        record.derived["response"] = "derived:messages"
    record.response = text if isinstance(text, str) else None
    token_texts.set_tokens(record, choice.get("logprobs"), notes)
    if record.response is None:
        return Problem(f"row {row}: no message; the row was not taken", "no_response", "error", row)
    record.finish_reason = scalars.text(row, "finish_reason", choice.get("finish_reason"), notes)
    _set_group(record, fields.get("custom_id"), number)
    record.extra |= {name: part for name, part in fields.items() if name not in MARKS and part is not None}
    record.extra |= {"body": {name: value for name, value in body.items() if name != "choices"}}
    return record


def _set_group(record: Rollout, custom_id: Any, number: int | None) -> None:
    found = scalars.typed_id(custom_id)
    if found is None:
        return
    record.sample_id, rule = found[0], "derived:custom_id"
    record.group_id = record.sample_id
    if number is not None:
        record.sample_id, record.sample_index = f"{record.group_id}#{number}", number
    elif match := _NUMBERED.fullmatch(record.group_id):
        record.group_id, rule = match[1], "derived:custom_id before its last number"
        record.sample_index = int(match[2])
        record.derived["sample_index"] = "derived:last number of custom_id"
    record.derived["group_id"] = rule


ABOUT = About(
    setting="a batch of chat completions; `logprobs: true` in the requests for the tokens",
    files="`{batch}_output.jsonl`",
    recorded=("sample_id", "messages"),
    sometimes=("response_tokens", "rollout_log_probs", "finish_reason", "response", "sample_index"),
    derived={
        "group_id": "`custom_id`, or what stands before its last number", "response": "messages",
        "sample_index": "last number of `custom_id`",
    },
    absent={
        name: ""
        for name in ("prompt", "reward", "step", "response_ids", "response_mask", "advantages")
    },
)  # fmt: skip
FORMAT = Format("batch-api-output", "batch API output of chat completions, JSONL", sniff, read, about=ABOUT)
