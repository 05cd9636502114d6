"""Prompts and responses that may be text, chat messages, or messages with images."""

import json
from typing import Any

from app.ingest.json_rows import a_kind, kind_of
from app.ingest.notes import Notes
from app.ingest.record import Rollout


def is_messages(value: Any) -> bool:
    """Whether the value is a conversation: a list of objects that each have a role or a content."""
    return isinstance(value, list) and all(
        isinstance(item, dict) and item.keys() & {"role", "content"} for item in value
    )


def rendered(messages: list[Any]) -> str:
    """A conversation as plain text, one block per message, for reading, searching and comparing prompts."""
    return "\n\n".join(f"{message.get('role') or 'message'}: {content(message)}" for message in messages)


def content(message: dict[str, Any]) -> str:
    """The text of one message; images and other parts as "[1 image]", tool calls as their JSON."""
    parts = [_content(message.get("content"))]
    if calls := message.get("tool_calls"):
        parts.append(calls if isinstance(calls, str) else json.dumps(calls, ensure_ascii=False))
    return "\n".join(part for part in parts if part)


def _content(value: Any) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    if not isinstance(value, list):
        return json.dumps(value, ensure_ascii=False)
    texts, others = [], dict[str, int]()
    for part in value:
        if isinstance(part, str):
            texts.append(part)
        elif isinstance(part, dict) and isinstance(part.get("text"), str):
            texts.append(part["text"])
        else:
            kind = _part_kind(part)
            others[kind] = others.get(kind, 0) + 1
    shown = [f"[{count} {kind}{'s' if count > 1 else ''}]" for kind, count in others.items()]
    return "\n".join(texts + shown)


def _part_kind(part: Any) -> str:
    kind = str(part.get("type") or "part") if isinstance(part, dict) else kind_of(part)
    for name in ("image", "audio", "video"):
        if name in kind:
            return name
    return kind[:32]


def set_prompt(rollout: Rollout, value: Any, notes: Notes) -> None:
    """Store a prompt of any kind: text as it is, messages beside the text rendered from them."""
    if value is None or isinstance(value, str):
        rollout.prompt = value
    elif is_messages(value):
        rollout.prompt_messages = value
        rollout.prompt = rendered(value)
        rollout.derived["prompt"] = "derived:messages"
    else:
        rollout.prompt = json.dumps(value, ensure_ascii=False)
        notes.tally(rollout.row, "prompt", "read_as_text", f"prompt is {a_kind(value)}; kept as its JSON")


def set_response(rollout: Rollout, value: Any, notes: Notes) -> bool:
    """Store a response of any kind; False where it is nothing that a model answers."""
    if value is None or isinstance(value, str):
        rollout.response = value
    elif is_messages(value) and value:
        rollout.messages = (rollout.prompt_messages or []) + value
        single = len(value) == 1
        rollout.response = content(value[0]) if single else rendered(value)
        rollout.derived["response"] = "derived:messages"
    else:
        return False
    return True


def prompt_key(rollout: Rollout) -> bytes | None:
    """What makes two prompts the same: messages, text or ids; None where no prompt was recorded."""
    if rollout.prompt_messages is not None:
        return json.dumps(rollout.prompt_messages, sort_keys=True).encode()
    if rollout.prompt is not None:
        return rollout.prompt.encode(errors="surrogatepass")
    if rollout.prompt_ids is not None:
        return rollout.prompt_ids.tobytes()
    if rollout.messages is not None:
        asked = [message for message in rollout.messages if not _by_assistant(message)]
        return json.dumps(asked, sort_keys=True).encode() if asked else None
    return None


def _by_assistant(message: Any) -> bool:
    return isinstance(message, dict) and message.get("role") == "assistant"


def first_answer(messages: list[Any]) -> int:
    """Where the model answers for the first time: the first message of the assistant, else the end."""
    answers = (place for place, message in enumerate(messages) if _by_assistant(message))
    return next(answers, len(messages))
