"""Token texts of OpenAI-style log-probs: [{token, logprob, bytes}], whose joined text is the response.

A token that ends inside a character has the text "", and the token that ends the character has all of it.
"""

import codecs
from typing import Any

from app.ingest import token_arrays
from app.ingest.notes import Notes
from app.ingest.record import Rollout


def texts(entries: list[dict[str, Any]]) -> list[str]:
    """The text of each token: from its bytes where they are there, else as it is written."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    found = []
    for entry in entries:
        raw = _bytes(entry.get("bytes"))
        if raw is None:
            found.append(decoder.decode(b"", True) + str(entry.get("token") or ""))
            decoder.reset()
        else:
            found.append(decoder.decode(raw))
    if found and (rest := decoder.decode(b"", True)):
        found[-1] += rest
    return found


def _bytes(value: Any) -> bytes | None:
    if not isinstance(value, list) or not all(type(item) is int and 0 <= item < 256 for item in value):
        return None
    return bytes(value)


def set_tokens(record: Rollout, logprobs: Any, notes: Notes) -> None:
    """`response_tokens` and `rollout_log_probs` from a choice's `logprobs`, where it has them."""
    content = logprobs.get("content") if isinstance(logprobs, dict) else None
    if not isinstance(content, list) or not content:
        return
    if not all(isinstance(entry, dict) for entry in content):
        notes.warn(record.row, "response_tokens", "unusable_values", "logprobs hold no tokens; left out")
        return
    tokens = texts(content)
    values = token_arrays.read(
        record.row, "rollout_log_probs", [entry.get("logprob") for entry in content], notes
    )
    if record.response is None:
        record.response = "".join(tokens)
        record.derived["response"] = "derived:join(response_tokens)"
    elif not record.response.startswith("".join(tokens).rstrip("\ufffd")):
        message = "the tokens' texts do not join to the response; kept as they are"
        notes.tally(record.row, "response_tokens", "tokens_differ", message, "warning")
    record.response_tokens = tokens
    if values is not None:
        record.tokens["rollout_log_probs"] = values
