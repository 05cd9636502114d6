"""Which column of a table is which field, guessed by name and held against what stands in it."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from app.ingest import canonical
from app.ingest.column_names import NAMES, normal, shown
from app.ingest.prompts import is_messages
from app.ingest.record import PROMPT_FIELD, TOKEN_FIELDS
from app.ingest.tabular import Look

#: Fields that a column can be, in the order in which a person looks for them.
FIELDS: tuple[str, ...] = (
    "response", "prompt", "reward", "group_id", "step", "split", "data_source", "ground_truth", "advantage",
    "finish_reason", "messages", "response_ids", "response_tokens", "response_mask",
    *(name for name in TOKEN_FIELDS if name not in ("response_ids", "response_mask")), PROMPT_FIELD,
    "reward_components", "sample_id", "sample_index", "rollout_id", "segment", "rank", "micro_batch",
    "policy_version", "reward_baseline", "bootstrap_value", "truncated", "terminated",
)  # fmt: skip
#: Any of these makes a row a rollout.
ANSWERS = ("response", "response_ids", "response_tokens")
LISTS = frozenset((*TOKEN_FIELDS, PROMPT_FIELD, "response_tokens"))
NUMBERS = frozenset(canonical.FLOATS)
INTEGERS = frozenset(canonical.INTEGERS)

_NUMBER = re.compile(r"\s*[+-]?(\d+([.,]\d*)?|[.,]\d+)([eE][+-]?\d+)?\s*")
_COMMA = re.compile(r"\s*[+-]?\d*,\d+([eE][+-]?\d+)?\s*")
_MESSAGES = re.compile(r"\[\s*\{")
_LIST = re.compile(r"\[\s*(?:[-+.\d\"']|\]|None\b|nan\b|inf\b)")
#: What a spreadsheet writes in place of what it could not compute.
ERRORS = frozenset(("#NAME?", "#REF!", "#VALUE!", "#DIV/0!", "#N/A", "#NUM!", "#NULL!"))
_WORDS = frozenset(("", "true", "false", "nan", "inf", "-inf", "none", "null", "n/a"))


@dataclass(frozen=True, slots=True)
class Guess:
    """`fields`: field -> column. `doubts`: what is named like a field and holds something else. `texts`:
    columns of texts, the longest first: one of them may be the response."""

    fields: dict[str, str]
    doubts: tuple[str, ...]
    texts: tuple[str, ...]


def guess(look: Look) -> Guess:
    """A field for every column that is named and filled like one; no column twice."""
    kinds = {column: kind_of(row.get(column) for row in look.rows) for column in look.columns}
    by_name: dict[str, str] = {}
    for column in look.columns:
        by_name.setdefault(normal(column), column)
    fields: dict[str, str] = {}
    doubts: dict[str, str] = {}
    for field in FIELDS:
        for name in NAMES.get(field, (field,)):
            column = by_name.get(name, "")
            if not column or column in fields.values():
                continue
            if fits(field, kinds[column]):
                fields[field] = column
                doubts.pop(column, None)
                break
            doubts.setdefault(column, f"{shown(column)} is named like {field} but holds {kinds[column]}")
    left = tuple(doubts[column] for column in doubts if column not in fields.values())
    return Guess(fields, left, texts_of(look, kinds))


def kind_of(values: Iterable[Any]) -> str:
    """What a column holds, in a word: "numbers", "texts", "lists", "objects", "messages" or "nothing"."""
    kinds = Counter(kind for value in values if (kind := _kind(value)))
    if not kinds:
        return "nothing"
    most, count = kinds.most_common(1)[0]
    # A few cells of another kind (cut, misspelt) are said when they are read; they are no other column.
    return most if 2 * count >= kinds.total() else "different things"


def _kind(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, (bool, int, float, np.generic)):
        return "numbers"
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, dict):
        return "objects"
    if isinstance(value, list) and value and is_messages(value):
        return "messages"
    return "lists"


def _text(value: str) -> str:
    stripped = value.strip()
    if stripped.lower() in _WORDS or stripped in ERRORS:
        return ""
    if _NUMBER.fullmatch(stripped):
        return "numbers"
    if stripped[:1] == "[":
        return "messages" if _MESSAGES.match(stripped) else "lists" if _LIST.match(stripped) else "texts"
    return "objects" if stripped[:1] == "{" and stripped[-1:] == "}" else "texts"


def fits(field: str, kind: str) -> bool:
    """Whether a column that holds this can be the field."""
    if kind == "nothing":
        return True
    if field in LISTS:
        return kind == "lists"
    if field in NUMBERS or field in INTEGERS:
        return kind == "numbers"
    if field == "messages":
        return kind == "messages"
    if field == "reward_components":
        return kind == "objects"
    return field not in ("response", "prompt") or kind in ("texts", "messages", "numbers", "different things")


def texts_of(look: Look, kinds: dict[str, str]) -> tuple[str, ...]:
    """Columns of texts, those with the longest first."""

    def size(column: str) -> int:
        return sum(len(value) for row in look.rows if isinstance(value := row.get(column), str))

    return tuple(sorted((c for c in look.columns if kinds[c] == "texts"), key=size, reverse=True)[:3])


def decimal_commas(look: Look, columns: Sequence[str]) -> tuple[str, str] | None:
    """(column, value) of the first cell that is a number with a comma, or a list that mixes both uses."""
    for column in columns:
        for row in look.rows:
            value = row.get(column)
            if isinstance(value, str) and (_COMMA.fullmatch(value) or mixed(value)):
                return column, value
    return None


def mixed(text: str) -> bool:
    """Whether commas stand inside numbers and between them: "[0,5, 1,5]"."""
    return text.lstrip()[:1] == "[" and ", " in text and re.search(r"\d,\d", text) is not None
