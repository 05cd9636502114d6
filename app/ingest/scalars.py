"""Single values of a row: to the type of their field, with a note where they were of another, or to None."""

import json
import math
import re
from typing import Any

import numpy as np

from app.ingest.json_rows import Overflow, a_kind, kind_of
from app.ingest.notes import Notes

_NUMBER = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")
_WORDS = {"true": 1.0, "false": 0.0, "nan": math.nan}
_INFINITIES = {"inf": math.inf, "infinity": math.inf}
_INTEGER = re.compile(r"[+-]?[0-9]{1,19}")


def plain(value: Any) -> Any:
    """A numpy scalar as the Python value, everything else as it is."""
    return value.item() if isinstance(value, np.generic) else value


def number(row: int, name: str, value: Any, notes: Notes) -> float | None:
    """A float64. Text that is a number (or True, False, nan) is read with a note; other text is left out."""
    value = plain(value)
    if value is None or type(value) is float:
        return _finite(name, value, notes)
    if isinstance(value, Overflow):
        message = f"{name} {_quoted(value.text, '')} is too large for float64; left empty"
        notes.warn(row, name, "number_too_large", message)
        return None
    if isinstance(value, bool):
        notes.tally(row, name, "read_as_number", f"{name} is true or false; read as 1 or 0")
        return float(value)
    if isinstance(value, int):
        return _whole(row, name, value, notes)
    if isinstance(value, str) and (cast := _cast(value)) is not None:
        notes.tally(row, name, "read_as_number", f"{name} is text; read as a number")
        return _finite(name, cast, notes)
    shown = _quoted(value) if isinstance(value, str) else kind_of(value)
    notes.warn(row, name, "not_a_number", f"{name} {shown} is not a number; left empty")
    return None


def _finite(name: str, value: float | None, notes: Notes) -> float | None:
    if value is not None and value - value != 0:
        notes.nonfinite(name, "NaN" if value != value else "Infinity" if value > 0 else "-Infinity", 1)
    return value


def _whole(row: int, name: str, value: int, notes: Notes) -> float | None:
    try:
        result = float(value)
    except OverflowError:
        result = math.inf
    if result == value:
        return result
    notes.warn(
        row, name, "number_too_large", f"{name} {_quoted(str(value), '')} does not fit float64; left empty"
    )
    return None


def _cast(text: str) -> float | None:
    text = text.strip()
    if _NUMBER.fullmatch(text):
        value = float(text)
        return value if math.isfinite(value) else None
    word = text.lower()
    if word in _WORDS:
        return _WORDS[word]
    infinite = _INFINITIES.get(word.lstrip("+-"))
    return None if infinite is None else -infinite if word.startswith("-") else infinite


def _quoted(text: str, mark: str = '"') -> str:
    return f"{mark}{text if len(text) <= 40 else text[:37] + '…'}{mark}"


def plain_number(row: int, name: str, text: str, notes: Notes) -> float | None:
    """A number from a text that has to be one: as `number`, without the note that it was text."""
    value = _cast(text)
    return number(row, name, text, notes) if value is None else _finite(name, value, notes)


def integer(row: int, name: str, value: Any, notes: Notes) -> int | None:
    """A 64-bit integer. "7" and 7.0 are read with a note; 7.5, true and larger numbers are left out."""
    value = plain(value)
    if value is None:
        return None
    kind = None
    if type(value) is int:
        whole = value
    elif isinstance(value, str) and _INTEGER.fullmatch(value.strip()):
        whole, kind = int(value), "text"
    elif isinstance(value, float) and value.is_integer():
        whole, kind = int(value), "a fractional type"
    else:
        if not (isinstance(value, float) and math.isnan(value)):
            shown = _quoted(str(value)) if isinstance(value, (str, float)) else kind_of(value)
            notes.warn(row, name, "not_an_integer", f"{name} {shown} is not a whole number; left empty")
        return None
    if not -(2**63) <= whole < 2**63:
        notes.warn(
            row, name, "number_too_large", f"{name} {_quoted(str(whole), '')} is past 64 bits; left empty"
        )
        return None
    if kind is not None:
        notes.tally(row, name, "read_as_integer", f"{name} is {kind}; read as a whole number")
    return whole


def boolean(row: int, name: str, value: Any, notes: Notes) -> bool | None:
    """True or False; 0, 1 and the words are read with a note."""
    value = plain(value)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, (int, float)) and value in (0, 1):
        notes.tally(row, name, "read_as_boolean", f"{name} is a number; read as true or false")
        return bool(value)
    if isinstance(value, str) and value.strip().lower() in ("true", "false"):
        notes.tally(row, name, "read_as_boolean", f"{name} is text; read as true or false")
        return value.strip().lower() == "true"
    notes.warn(row, name, "not_a_boolean", f"{name} {_quoted(str(value))} is not true or false; left empty")
    return None


def text(row: int, name: str, value: Any, notes: Notes) -> str | None:
    """Text as it is; a number as its digits, with a note; anything else as its JSON."""
    value = plain(value)
    if value is None or type(value) is str:
        return value
    if isinstance(value, float) and math.isnan(value):
        return None
    if isinstance(value, str):
        return str(value)
    if name != "ground_truth":
        notes.tally(row, name, "read_as_text", f"{name} is {a_kind(value)}; kept as text")
    return json.dumps(value, ensure_ascii=False)


def typed_id(value: Any) -> tuple[str, str] | None:
    """An identifier's text and what type it was of, exact; None where there is none (null, "", NaN).

    1, 1.0, "1" and true are four different ones: whoever keeps ids has to tell them apart by the type.
    """
    value = plain(value)
    if value is None or value == "" or (isinstance(value, float) and math.isnan(value)):
        return None
    if isinstance(value, str):
        return str(value), "text"
    return json.dumps(value, ensure_ascii=False), kind_of(value) if type(value) is not int else "whole number"
