"""Canonical rows as CSV for a spreadsheet, in which a model's text is never run.

A spreadsheet takes a cell that begins with one of a few characters for a formula, also where it is quoted;
such a text gets an apostrophe in front. Numbers stay numbers. Lists and
objects are JSON; a value that a row lacks is an empty cell.
"""

import csv
import json
import math
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, TextIO

#: A text that begins so is a formula, or becomes one once the white space in front is cut off.
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")


def write(path: Path, columns: Iterable[str], rows: Iterable[dict[str, Any]]) -> int:
    """Write the rows, a line with the names of the columns first; how many rows. UTF-8 with a mark that says
    so, as spreadsheets want it; half a character is written as its escape."""
    with open(path, "w", encoding="utf-8-sig", errors="backslashreplace", newline="") as file:
        return sum(1 for _ in written(file, list(columns), rows))


def written(file: TextIO, columns: list[str], rows: Iterable[dict[str, Any]]) -> Iterator[None]:
    writer = csv.writer(file)
    writer.writerow(columns)
    for row in rows:
        writer.writerow([cell(row.get(name)) for name in columns])
        yield


def cell(value: Any) -> str:
    """What stands in the cell, before it is quoted."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return str(value) if math.isfinite(value) else json.dumps(value)
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return f"'{text}" if text.lstrip(" \u00a0").startswith(FORMULA) else text
