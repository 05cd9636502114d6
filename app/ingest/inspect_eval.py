"""Inspect's logs as they are written by default: *.eval, a ZIP of JSON members, a member for each sample.

Newer releases compress with zstd (method 93), older ones with deflate. A log that was not finished has no
header.json; its samples are there all the same.
"""

import json
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from app.ingest import inspect_log
from app.ingest.archives import BROKEN, MAX_MEMBERS, member_names, zip_kind
from app.ingest.expand import Caps, DamagedStream
from app.ingest.json_rows import deeper_than
from app.ingest.notes import Notes
from app.ingest.record import Format, Item, Problem, Source, Unreadable
from app.ingest.zip_members import opened
from app.settings import Settings

HEADS = ("header.json", "_journal/start.json")


def sniff(source: Source, settings: Settings) -> bool:
    if source.path is None or not source.head.startswith(b"PK\x03\x04"):
        return False
    names = member_names(source.path)
    return names is not None and zip_kind(names) == "inspect"


def read(source: Source, settings: Settings) -> Iterator[Item]:
    notes, caps = Notes(), Caps(settings)
    with _archive(source) as archive:
        infos = {info.filename: info for info in archive.infolist()}
        head = next((info for name in HEADS if (info := infos.get(name))), None)
        said = {} if head is None else _value(source, head, caps, settings)
        said = said if isinstance(said, dict) else {}
        yield inspect_log.header(said)
        samples = [info for name, info in infos.items() if name.startswith("samples/")]
        if len(samples) > MAX_MEMBERS:
            raise Unreadable(
                f"it holds {len(samples):,} samples; at most {MAX_MEMBERS:,} are read.", "too_many"
            )
        for row, info in enumerate(sorted(samples, key=lambda info: info.header_offset), 1):
            value = _value(source, info, caps, settings)
            if isinstance(value, Problem):
                yield replace(value, row=row, message=f"row {row}: {value.message}")
            else:
                yield inspect_log.sample(row, value, said, notes)
            yield from notes.drain()
            source.report(info.header_offset + info.compress_size)
    if "header.json" not in infos:
        message = "the log was not finished (no header.json): samples that were not written yet are missing"
        yield Problem(message, "not_finished", "warning")
    yield from notes.summary()


def _archive(source: Source) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(str(source.path))
    except BROKEN:
        raise Unreadable("the .eval log is damaged or incomplete; copy it again.", "zip_damaged") from None


def _value(source: Source, info: zipfile.ZipInfo, caps: Caps, settings: Settings) -> Any:
    """The JSON of one member, or the problem that stands for it."""
    limit = settings.max_line_bytes
    try:
        with opened(source, info, caps) as stream:
            data = stream.read(limit + 1)
    except DamagedStream as error:
        return Problem(f"{info.filename}: {error}; it was not taken", "damaged_stream", "error")
    if len(data) > limit:
        message = f"{info.filename} is longer than {limit:,} bytes (VANTAGE_MAX_LINE_BYTES); it was not taken"
        return Problem(message, "too_long", "error")
    if deeper_than(data, settings.max_depth):
        message = f"{info.filename} is nested deeper than {settings.max_depth}; it was not taken"
        return Problem(message, "too_deep", "error")
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return Problem(f"{info.filename} is no whole JSON; it was not taken", "not_json", "error")


ABOUT = replace(
    inspect_log.ABOUT,
    setting="always on; `--logprobs` for the tokens; `--epochs N` for groups",
    files="`logs/{time}_{task}_{id}.eval`",
)
FORMAT = Format("inspect-eval", "Inspect evaluation log, .eval", sniff, read, about=ABOUT)
