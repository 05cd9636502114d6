"""One line of JSON to a dict, fast: numeric lists become arrays without a Python number per value.

pysimdjson first. Whatever it refuses (NaN, numbers past 64 bits, lone surrogates, control characters in text)
goes to the standard library. Its traps, each handled here: `as_buffer` flattens nested lists without a word;
it gives the first of repeated keys where every other parser gives the last; a key ends at its first NUL; it
accepts 1,024 levels.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import simdjson

from app.ingest.record import PROMPT_FIELD, TOKEN_FIELDS

INT_LISTS = frozenset(("response_ids", "response_mask", PROMPT_FIELD))
FLOAT_LISTS = frozenset(TOKEN_FIELDS) - INT_LISTS
LISTS = {name: "i" for name in INT_LISTS} | {name: "d" for name in FLOAT_LISTS}

#: So many values are looked up by name.
FEW_KEYS = 128

#: A "[" that may open a list inside a list: after "[" or ",", with up to one space, or after two spaces.
_NESTED = re.compile(rb"\[(?:(?<=[\[,]\[)|(?<=[\[,\s]\s\[))")
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_TOKENS = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[\[\]{}]', re.DOTALL)


class Overflow(float):
    """A number written in digits that float64 cannot hold, such as 1e400. `text` is what was written."""

    text: str


class NotJson(Exception):
    """The line is no JSON. `incomplete`: it ends inside a value."""

    def __init__(self, message: str, incomplete: bool = False) -> None:
        super().__init__(message)
        self.incomplete = incomplete


class TooDeep(Exception):
    """The line nests deeper than the limit."""


@dataclass(slots=True)
class Row:
    """`fields`: arrays for per-token fields, Python values for the rest. `repeated`: keys given twice."""

    fields: dict[str, Any]
    repeated: list[str] = field(default_factory=list)
    bad_bytes: int = 0  # bytes that are not UTF-8 and were replaced


def parse(parser: simdjson.Parser, line: bytes, depth: int, lists: Mapping[str, str] = LISTS) -> Row:
    """The fields of one row. Raises NotJson or TooDeep; never anything else, whatever the bytes.

    `lists` names the fields that are lists of numbers, which become arrays: "i" int64, "d" float64, "I" and
    "D" the same inside a list of one.
    """
    try:
        row = _fast(parser, line, depth, lists)
    except (ValueError, RuntimeError, TypeError, MemoryError):
        row = None  # no traceback may keep the refused document, and with it the parser, busy
    if row is None:
        if deeper_than(line, depth):
            raise TooDeep
        return _slow(line)
    return row


def _too_deep(value: Any, depth: int) -> bool:
    """Whether lists and objects nest deeper than `depth`; at most `depth` calls deep itself."""
    if isinstance(value, dict):
        value = list(value.values())
    if not isinstance(value, list):
        return False
    if depth < 1:
        return True
    if not {list, dict} & set(map(type, value)):
        return False
    return any(_too_deep(item, depth - 1) for item in value)


def _fast(parser: simdjson.Parser, line: bytes, depth: int, lists: Mapping[str, str]) -> Row:
    document: Any = parser.parse(line)
    if type(document) is not simdjson.Object:
        raise TypeError("not an object")
    fields: dict[str, Any] = {}
    keys = list(document.keys())
    if len(set(keys)) != len(keys) or "\0" in "".join(keys):
        raise ValueError("keys that cannot be looked up by name")
    values = _values(document, keys, lists)
    # As many brackets as lists at the top level: no list stands in a list, wherever the others stand.
    flat = line.count(b"[") == sum(type(value) is simdjson.Array for value in values)
    check = not flat and _may_nest(line)
    for key, value in zip(keys, values, strict=True):
        kind = type(value)
        if kind is simdjson.Array:
            value = _list(lists.get(key), value, check)
        elif kind is simdjson.Object:
            value = value.as_dict()
        if type(value) in (list, dict) and _too_deep(value, depth - 1):
            raise TooDeep
        fields[key] = value
    return Row(fields)


def _values(document: Any, keys: list[str], lists: Mapping[str, str]) -> list[Any]:
    """The values in the order of the keys. Each look-up by name begins at the first key, so of an object with
    very many keys only lists of numbers are looked up; its other values are Python's at once."""
    if len(keys) <= FEW_KEYS:
        return [document[key] for key in keys]
    plain = document.as_dict()
    return [document[key] if key in lists else plain[key] for key in keys]


def _may_nest(line: bytes) -> bool:
    """Whether a list may stand in a list; brackets in texts, which are common, are looked through."""
    return _NESTED.search(line) is not None and _NESTED.search(_STRING.sub(b'""', line)) is not None


def _list(code: str | None, value: Any, check: bool) -> Any:
    """An array where the list is flat and of numbers throughout, else the Python list."""
    if code is not None and code.isupper():
        return _wrapped(code.lower(), value)
    if code is None or (check and any(type(item) is simdjson.Array for item in value)):
        return value.as_list()
    try:
        buffer = value.as_buffer(of_type=code)
    except (TypeError, ValueError):
        return value.as_list()
    return np.frombuffer(buffer, dtype=np.int64 if code == "i" else np.float64)


def _wrapped(code: str, value: Any) -> Any:
    """The only element of the list as a list of one array, where that is a flat list of numbers."""
    if len(value) != 1 or type(value[0]) is not simdjson.Array:
        return value.as_list()
    inner: Any = value[0]
    flat = inner.mini.count(b"[") == 1  # texts, which may hold brackets, are refused further on
    return [_list(code, inner, False)] if flat else value.as_list()


def value_of(data: bytes, depth: int) -> Any:
    """Any JSON value, with NaN, Infinity and numbers past float64 as in rows. Raises NotJson, TooDeep."""
    if deeper_than(data, depth):
        raise TooDeep
    try:
        return _loads(decode(data)[0], dict)
    except json.JSONDecodeError as error:
        raise NotJson(error.msg) from None


def _loads(text: str, pairs: Callable[[list[tuple[str, Any]]], dict[str, Any]]) -> Any:
    try:
        return json.loads(
            text, parse_float=_number, parse_int=_integer, object_pairs_hook=pairs, strict=False
        )
    except json.JSONDecodeError:
        raise
    except (ValueError, RecursionError) as error:
        raise NotJson(str(error)) from None


def _slow(line: bytes) -> Row:
    text, bad_bytes = decode(line)
    repeated: list[str] = []

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(items)
        if len(found) != len(items):
            counts = Counter(key for key, _ in items)
            repeated.extend(key for key, count in counts.items() if count > 1)
        return found

    try:
        value = _loads(text, pairs)
    except json.JSONDecodeError as error:
        why = "more stands behind the object on its line" if error.msg == "Extra data" else error.msg
        raise NotJson(why, line.startswith(b"{") and deeper_than(line, 0, at_end=True)) from None
    if not isinstance(value, dict):
        raise NotJson(f"a JSON {kind_of(value)}, not an object")
    return Row(value, repeated, bad_bytes)


def decode(line: bytes) -> tuple[str, int]:
    """The text, and how many bytes were not UTF-8 and became U+FFFD."""
    try:
        return line.decode(), 0
    except UnicodeDecodeError:
        text = line.decode(errors="replace")
        return text, max(1, text.count("\ufffd") - line.count("\ufffd".encode()))


def kind_of(value: Any) -> str:
    """What JSON calls the value."""
    if value is None:
        return "null"
    names = {bool: "true or false", str: "text", int: "number", float: "number", list: "list", dict: "object"}
    return next((name for kind, name in names.items() if isinstance(value, kind)), "list")


def a_kind(value: Any) -> str:
    """What JSON calls the value, with its article."""
    kind = kind_of(value)
    if kind in ("null", "true or false", "text"):
        return kind
    return f"an {kind}" if kind == "object" else f"a {kind}"


def _number(text: str) -> float:
    value = float(text)
    if value - value == 0:
        return value
    overflow = Overflow(value)
    overflow.text = text
    return overflow


def _integer(text: str) -> int | float:
    # Python refuses to read more than 4,300 digits at once; no such number is a token or a reward.
    return int(text) if len(text) < 4300 else _number(text)


def deeper_than(line: bytes, limit: int, at_end: bool = False) -> bool:
    """Whether brackets outside strings nest deeper than `limit` anywhere, or only at the end of the line."""
    depth = 0
    for match in _TOKENS.finditer(line):
        byte = line[match.start()]
        if byte in b"[{":
            depth += 1
            if depth > limit and not at_end:
                return True
        elif byte in b"]}":
            depth -= 1
    return at_end and depth > limit
