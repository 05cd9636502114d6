"""What a text file is that no format reads: a web page, Python's repr, a CSV, a log, rows of others."""

import html
import json
import re
from typing import Any

import simdjson

from app.ingest import csv_rows, jsonl, mapping, tabular
from app.ingest.json_rows import NotJson, deeper_than, kind_of, parse
from app.ingest.looks import looks_like, looks_like_columns, names
from app.ingest.record import Source
from app.settings import Settings

WHOLE = 16 << 20  # a single JSON document is looked into up to this size
READS = "{ACCEPTED}"
_TITLE = re.compile(rb"<title[^>]*>(.*?)</title>", re.IGNORECASE | re.DOTALL)
_REPR = re.compile(r"\s*[\[(]?\s*\{\s*'[^'\n]{1,80}'\s*:")
_NOT_TEXT = re.compile(rb"[\x00-\x06\x0e-\x1a\x1c-\x1f]")
_NO_ROWS = re.compile(rb"\[\s*\]\s*")


def explain_text(source: Source, settings: Settings) -> tuple[str, str] | None:
    """(code, sentence), or None where this is no text. "{ACCEPTED}" stands for the formats that are read."""
    head = source.head.removeprefix(b"\xef\xbb\xbf")
    begin = head.lstrip()
    if not begin.strip(b"\0"):
        return "no_rows", "no rows: the file holds only blank lines."
    if (bits := _wide(head)) is not None:
        return "utf16", f"this is UTF-{bits} text; save it as UTF-8."
    if begin[:1] == b"<" and re.match(rb"<(!doctype html|html|head|body|\?xml)", begin, re.IGNORECASE):
        return "html", _page(head)
    if (columns := unknown_columns(source, settings)) is not None:
        return columns
    row = jsonl.first_row(source, settings)
    row = _document(source) if row is None else row
    if row is not None:
        return _rows(row)
    if len(_NOT_TEXT.findall(head)) * 50 > len(head):
        return None
    text = head.decode(errors="replace")
    if _REPR.match(text):
        message = "this is Python repr, not JSON; write it with json.dumps (one object per line)."
        return "python_repr", message
    table = csv_rows.damage(source)
    if table is not None:
        return "table_damaged", table
    return _log(text) or _json_damaged(source, settings, begin) or _one_value(begin) or _prose()


def _wide(head: bytes) -> int | None:
    """How many bits a character has in text without a byte order mark, where most are not of UTF-8."""
    for step, bits in ((4, 32), (2, 16)):
        planes = [head[offset::step] for offset in range(step)]
        empty = sum(plane.count(0) > 0.9 * len(plane) for plane in planes if plane)
        if len(head) >= 8 and empty == step - 1:
            return bits
    return None


def unknown_columns(source: Source, settings: Settings) -> tuple[str, str] | None:
    """Of a table of which no column is the response, and that no other framework is known by."""
    found = tabular.look(source, settings)
    if found is None or looks_like_columns(found.columns) is not None:
        return None
    return mapping.CODE, str(mapping.no_answer(found, mapping.choose(found, mapping.Asked())))


def _page(head: bytes) -> str:
    found = _TITLE.search(head)
    title = " ".join(html.unescape(found[1].decode(errors="replace")).split())[:120] if found else "none"
    return (
        f"this is an HTML page (title: {title}), not rollouts — the download probably needed a login. "
        "Download it again and look at its first line."
    )


def _document(source: Source) -> dict[str, Any] | None:
    """The fields of a file that is one JSON object over many lines."""
    if not source.head.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"{"):
        return None
    with source.open() as stream:
        data = stream.read(WHOLE + 1)
    if len(data) > WHOLE or deeper_than(data, 64):
        return None
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _rows(row: dict[str, Any]) -> tuple[str, str]:
    known = looks_like(row)
    if known is not None:
        held = f"its fields are {names(row)}"
        return "looks_like", f"this looks like {known}, but not like one that is read: {held}. {READS}"
    held = f"the rows have the fields {names(row)}, but" if row else "the rows are empty objects: they have"
    return "no_response", f"{held} no response or response_ids, so they are no rollouts. {READS}"


def _json_damaged(source: Source, settings: Settings, begin: bytes) -> tuple[str, str] | None:
    """JSON that is broken from its first row on."""
    if not begin.startswith((b"{", b"[")):
        return None
    if _NO_ROWS.fullmatch(begin):
        return "no_rows", "the file is an empty list: it has no rows."
    why = ""
    for line in jsonl.rows(source, settings):
        if line.too_long:
            limit = f"{settings.max_line_bytes:,} bytes (VANTAGE_MAX_LINE_BYTES)"
            return "line_too_long", f"no row could be read: line {line.number} is longer than {limit}."
        if line.data and deeper_than(line.data, settings.max_depth):
            return "too_deep", f"no row could be read: the first is nested deeper than {settings.max_depth}."
        if line.data and line.last and deeper_than(line.data, 0, at_end=True):
            message = (
                f"line {line.number} is incomplete (file ends inside a JSON object), and no row is whole. "
            )
            return "incomplete_row", f"{message}Upload the whole file again."
        why = _why_not(line.data, settings)
        break
    return (
        "not_json",
        f"this begins like JSON but no row of it can be read{why}; write one object per line. {READS}",
    )


def _why_not(data: bytes, settings: Settings) -> str:
    """What is wrong with the first row, for a sentence."""
    try:
        parse(simdjson.Parser(), data, settings.max_depth)
    except NotJson as error:
        return f": row 1 is not a JSON row ({error}): {jsonl.shown(data)}"
    return ""


def _one_value(begin: bytes) -> tuple[str, str] | None:
    """A whole file that is one JSON value, and neither a row nor a list of them."""
    try:
        value = json.loads(begin)
    except (ValueError, RecursionError):
        return None
    return "no_rows", f"no rows found: this is a single JSON {kind_of(value)}. {READS}"


def _log(text: str) -> tuple[str, str] | None:
    if "[prompt] " in text and "[output] " in text and "[score] " in text:
        message = (
            "this looks like an EasyR1 generations.log whose beginning is missing: it begins with [prompt]."
        )
        return "looks_like", f"{message} {READS}"
    return None


def _prose() -> tuple[str, str]:
    return "no_rows", f"no rows found: this is plain text. {READS}"
