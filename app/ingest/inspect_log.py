"""Inspect's evaluation logs as JSON: one document with the samples in a list, a row a sample and epoch.

The group is the sample's id. Scores C, P, I and N become 1, 0.5, 0 and 0. Of several scorers each is a
component of the reward, which is then the one that the log's headline names, else the first. Texts that stand
in `attachments` are put back. Token texts and log-probs are those of the answer, and are kept where the model
answered once; `events` are not kept.
"""

from collections.abc import Iterator
from typing import Any

from app.ingest import documents, prompts, scalars, token_texts
from app.ingest.notes import Notes
from app.ingest.record import About, Format, Header, Item, Problem, Rollout, Source
from app.settings import Settings

MARKS = frozenset(("version", "status", "eval"))
LETTERS = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}
ATTACHMENT = "attachment://"
MAPPED = frozenset((
    "id", "epoch", "input", "target", "messages", "output", "scores", "events", "attachments", "uuid",
))  # fmt: skip
EVAL = ("task", "task_id", "run_id", "eval_id", "model", "created", "dataset", "task_args", "config")


def sniff(source: Source, settings: Settings) -> bool:
    return set(documents.keys(source)) >= MARKS and documents.is_document(source)


def read(source: Source, settings: Settings) -> Iterator[Item]:
    notes, head, began = Notes(), dict[str, Any](), False
    for member in documents.members(source, settings, streamed=("samples",)):
        if not (member.key == "samples" and member.number):
            if member.key in ("eval", "results", "status"):
                head[member.key] = documents.value(member, settings)
            continue
        if not began:
            began = True
            yield header(head)
        yield sample(member.number, documents.value(member, settings), head, notes)
        yield from notes.drain()
    if not began:
        yield header(head)
    yield from notes.summary()


def header(head: dict[str, Any]) -> Header:
    """The header of the log: what was evaluated, by which model."""
    made = head.get("eval")
    made = made if isinstance(made, dict) else {}
    raw = {name: made[name] for name in EVAL if name in made}
    task = made.get("task")
    return Header(run=task if isinstance(task, str) else None, raw={"framework": "inspect", "eval": raw})


def sample(row: int, value: Any, head: dict[str, Any], notes: Notes) -> Rollout | Problem:
    """One sample of the log. `head` has the log's `eval` and `results`, as far as they came before."""
    if not isinstance(value, dict):
        return Problem(f"row {row}: the sample is no object; it was not taken", "bad_row", "error", row)
    attachments = value.get("attachments")
    fields = value
    if isinstance(attachments, dict) and attachments:
        fields = {name: _attached(part, attachments) for name, part in value.items() if name != "events"}
    record = Rollout(row)
    _set_texts(record, fields, notes)
    if record.response is None:
        error = fields.get("error")
        why = f" ({str(error.get('message'))[:200]})" if isinstance(error, dict) else ""
        message = f"row {row}: the sample has no answer{why}; it was not taken"
        return Problem(message, "no_response", "error", row, "output")
    if found := scalars.typed_id(fields.get("id")):
        record.group_id, kind = found
        if kind != "text":
            record.extra["group_id_type"] = kind
    record.sample_index = scalars.integer(row, "sample_index", fields.get("epoch"), notes)
    record.sample_id = scalars.text(row, "sample_id", fields.get("uuid"), notes)
    record.ground_truth = scalars.text(row, "ground_truth", fields.get("target"), notes)
    _set_source(record, fields, head, notes)
    _set_scores(record, fields.get("scores"), head, notes)
    record.extra |= {
        name: part for name, part in fields.items() if name not in MAPPED and part not in (None, [], {})
    }
    return record


def _attached(value: Any, attachments: dict[str, Any], depth: int = 64) -> Any:
    """The value with texts put back that stand in `attachments`."""
    if isinstance(value, str) and value.startswith(ATTACHMENT):
        return attachments.get(value.removeprefix(ATTACHMENT), value)
    if depth and isinstance(value, list):
        return [_attached(item, attachments, depth - 1) for item in value]
    if depth and isinstance(value, dict):
        return {name: _attached(item, attachments, depth - 1) for name, item in value.items()}
    return value


def _set_texts(record: Rollout, fields: dict[str, Any], notes: Notes) -> None:
    messages = fields.get("messages")
    if not prompts.is_messages(messages) or not messages:
        messages = []
    first = prompts.first_answer(messages)
    prompts.set_prompt(record, messages[:first] or fields.get("input"), notes)
    if messages[first:]:
        prompts.set_response(record, messages[first:], notes)
    output = fields.get("output")
    choices = output.get("choices") if isinstance(output, dict) else None
    choice = choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else {}
    if record.response is None and isinstance(choice.get("message"), dict):
        record.response = prompts.content(choice["message"])
        record.derived["response"] = "derived:messages"
    record.finish_reason = scalars.text(record.row, "finish_reason", choice.get("stop_reason"), notes)
    answers = sum(message.get("role") == "assistant" for message in messages)
    if answers <= 1:
        token_texts.set_tokens(record, choice.get("logprobs"), notes)
    elif choice.get("logprobs"):
        message = "the model answered several times: log-probs of its last answer alone are left out"
        notes.tally(record.row, "rollout_log_probs", "last_answer_only", message, "warning")


def _set_source(record: Rollout, fields: dict[str, Any], head: dict[str, Any], notes: Notes) -> None:
    metadata = fields.get("metadata")
    source = metadata.get("data_source") if isinstance(metadata, dict) else None
    made = head.get("eval")
    if source is None and isinstance(made, dict):
        source = made.get("task")
    record.data_source = scalars.text(record.row, "data_source", source, notes)


def _set_scores(record: Rollout, scores: Any, head: dict[str, Any], notes: Notes) -> None:
    if not isinstance(scores, dict) or not scores:
        return
    parts: dict[str, float | None] = {}
    for name, score in scores.items():
        value = score.get("value") if isinstance(score, dict) else score
        named = value.items() if isinstance(value, dict) else ((None, value),)
        for part, number in named:
            key = name if part is None else f"{name}.{part}"
            parts[key] = _points(record.row, key, number, notes)
    record.reward = next((value for name, value in parts.items() if name == _headline(head)), None)
    if record.reward is None:
        record.reward = next(iter(parts.values()), None)
    if len(parts) > 1:
        record.reward_components = parts
        record.derived["reward"] = "derived:the headline's score, else the first"
    record.extra["scores"] = scores


def _headline(head: dict[str, Any]) -> Any:
    results = head.get("results")
    headline = results.get("headline") if isinstance(results, dict) else None
    return headline.get("scorer") if isinstance(headline, dict) else None


def _points(row: int, name: str, value: Any, notes: Notes) -> float | None:
    if isinstance(value, str) and value in LETTERS:
        message = "scores are letters: C read as 1, P as 0.5, I and N as 0"
        notes.tally(row, "reward", "letters", message)
        return LETTERS[value]
    if isinstance(value, (list, dict)):
        notes.warn(row, "reward", "not_a_number", f"the score {name} is no single value; left empty")
        return None
    return scalars.number(row, f"score {name}", value, notes)


ABOUT = About(
    setting="`--log-format json`; `--logprobs` for the tokens; `--epochs N` for groups",
    files="`logs/{time}_{task}_{id}.json`",
    recorded=(
        "group_id", "sample_index", "prompt_messages", "messages", "reward", "ground_truth", "data_source",
    ),
    sometimes=("sample_id", "response_tokens", "rollout_log_probs", "finish_reason", "reward_components"),
    derived={
        "prompt": "messages", "response": "messages", "reward": "the headline's score, of several",
    },
    absent={"step": "", "response_ids": "", "response_mask": "", "advantages": "", "values": "", "split": ""},
)  # fmt: skip
FORMAT = Format("inspect-json", "Inspect evaluation log, JSON", sniff, read, about=ABOUT)
