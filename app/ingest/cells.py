"""One row of a table to the fields of a canonical row: texts of cells to values, nothing guessed."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from app.ingest.guesses import ERRORS, INTEGERS, LISTS, NUMBERS
from app.ingest.jsonable import jsonable
from app.ingest.mapping import COMPONENT, Chosen
from app.ingest.notes import Notes

#: The most that a spreadsheet keeps of a cell; longer ones are cut without a word.
CELL = 32_767
_POINT = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?")
_COMMA = re.compile(r"[+-]?(\d+(,\d*)?|,\d+)([eE][+-]?\d+)?")
_WHOLE = re.compile(r"[+-]?\d{1,19}")
#: Words of Python and numpy inside lists of numbers, as JSON knows them.
_WORDS = {"None": "null", "nan": "NaN", "inf": "Infinity", "True": "true", "False": "false"}
_WORD = re.compile(r"\b(None|nan|inf|True|False)\b")


@dataclass(frozen=True, slots=True)
class Cells:
    """`csv`: every value is a text, and an empty one is nothing."""

    chosen: Chosen
    csv: bool

    def fields(self, row: int, values: Mapping[str, Any], notes: Notes) -> dict[str, Any]:
        """The canonical fields; columns without one in `extra`."""
        found: dict[str, Any] = {}
        components: dict[str, Any] = {}
        for name, column in self.chosen.fields.items():
            value = self._value(row, name, column, values.get(column), notes)
            if value is None:
                continue
            if name.startswith(COMPONENT):
                components[name.removeprefix(COMPONENT)] = value
            else:
                found[name] = value
        if components:
            found["reward_components"] = components
        used = set(self.chosen.fields.values())
        found["extra"] = {name: jsonable(value) for name, value in values.items() if name not in used}
        return found

    def _value(self, row: int, name: str, column: str, value: Any, notes: Notes) -> Any:
        if not isinstance(value, str):
            return value
        if self.csv and not value:
            return "" if name == "response" else None
        if self.csv and self._damaged(row, name, column, value, notes):
            return None
        if name in LISTS:
            return self._list(row, name, column, value, notes)
        if name in ("messages", "reward_components"):
            return self._json(row, name, column, value, notes)
        if not self.csv:
            return value
        if name in NUMBERS or name.startswith(COMPONENT):
            return self._number(row, name, value, notes)
        return _whole(value) if name in INTEGERS else value

    def _damaged(self, row: int, name: str, column: str, value: str, notes: Notes) -> bool:
        """Say what a spreadsheet did to the cell; True where nothing can be made of it."""
        if len(value.encode("utf-16-le", "surrogatepass")) == 2 * CELL:
            message = (
                f"{column} has exactly {CELL:,} characters, the most that a spreadsheet keeps: "
                "probably cut; write the rows as JSONL or Parquet instead"
            )
            notes.tally(row, name, "cell_cut", message, "warning")
            return name in LISTS
        if value in ERRORS:
            message = f"{column} holds a spreadsheet's error ({value}) in place of what was there"
            notes.tally(row, name, "cell_error", message, "warning")
            return name not in ("response", "prompt")
        return False

    def _list(self, row: int, name: str, column: str, text: str, notes: Notes) -> Any:
        if self.csv and self.chosen.decimal == "comma":
            message = (
                f"{column}: lists with decimal commas are ambiguous, so per-token columns cannot be trusted "
                "from this export; left out"
            )
            notes.tally(row, name, "ambiguous_list", message, "warning")
            return None
        words = text if name == "response_tokens" else _WORD.sub(lambda word: _WORDS[word[0]], text)
        return self._json(row, name, column, words, notes)

    def _json(self, row: int, name: str, column: str, text: str, notes: Notes) -> Any:
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            message = f"{column} is not JSON (write lists with json.dumps); left out of these rows"
            notes.tally(row, name, "not_json", message, "warning")
            return None

    def _number(self, row: int, name: str, text: str, notes: Notes) -> Any:
        """A float, or the text, which is then refused as no number."""
        stripped = text.strip()
        if self.chosen.decimal != "comma":
            return float(stripped) if _POINT.fullmatch(stripped) else text
        if _COMMA.fullmatch(stripped):
            return float(stripped.replace(",", "."))
        message = f"{text[:40]!r} is not a number with a decimal comma; left empty"
        notes.warn(row, name, "not_a_number", f"{name} {message}")
        return None


def _whole(text: str) -> Any:
    """A whole number, also where it is written 5.0; else the text, which is then refused."""
    stripped = text.strip()
    if _WHOLE.fullmatch(stripped):
        return int(stripped)
    return float(stripped) if _POINT.fullmatch(stripped) else text
