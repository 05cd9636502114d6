"""ART's trajectories of mid-2025: {step:04d}.yaml, one list of groups, anchors where messages are shared.

Plain YAML only: no tags, no merge keys. What aliases would become when they are written out is counted before
anything of it is used.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import yaml

from app.ingest import art_rows, names
from app.ingest.notes import Notes
from app.ingest.record import Format, Header, Item, Problem, Rollout, Source, Unreadable
from app.settings import Settings

MAX_BYTES = 32 << 20
MAX_EVENTS = 4_000_000
#: Values of the whole file with its aliases written out.
MAX_VALUES = 20_000_000
DAMAGED = (yaml.YAMLError, ValueError, RecursionError, OverflowError)


class _Loader(yaml.CSafeLoader):
    """Plain values; merge keys, which copy what they name, are refused."""

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        if any(key.tag == "tag:yaml.org,2002:merge" for key, _ in node.value):
            raise Unreadable("it uses merge keys (<<), which are not read; save it as JSONL.", "bad_yaml")


def sniff(source: Source, settings: Settings) -> bool:
    head = source.head.lstrip()
    if not head.startswith((b"- ", b"-\n", b"---")):
        return False
    return b"messages_and_choices:" in head and b"trajectories:" in head


def read(source: Source, settings: Settings) -> Iterator[Item]:
    notes = Notes()
    groups = _groups(source, settings)
    yield Header(raw={"framework": "art"})
    place, row = (names.step(source, bare=True), names.split(source)), 1
    for number, group in enumerate(groups):
        for item in art_rows.of_group(row, group, number, notes):
            row += isinstance(item, Rollout) or (isinstance(item, Problem) and item.severity == "error")
            if isinstance(item, Rollout):
                names.fill(item, *place)
            yield from notes.drain()
            yield item
    yield from notes.summary()


def _groups(source: Source, settings: Settings) -> list[Any]:
    with source.open() as stream:
        data = stream.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        limit = f"{MAX_BYTES >> 20} MiB of YAML are read"
        raise Unreadable(f"at most {limit}; save the trajectories as JSONL or Parquet.", "too_large")
    try:
        _check(data, settings.max_depth)
        value = yaml.load(data, Loader=_Loader)
        _written_out(value, {}, set(), settings.max_depth)
    except DAMAGED as error:
        reason = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
        raise Unreadable(f"it is no plain YAML ({reason}); copy it again.", "bad_yaml") from None
    if not isinstance(value, list):
        raise Unreadable("it is no list of trajectory groups.", "bad_yaml")
    return value


def _check(data: bytes, deepest: int) -> None:
    """Count what the file holds before any of it is built. Raises Unreadable."""
    depth = 0
    for count, event in enumerate(yaml.parse(data, Loader=yaml.CSafeLoader)):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > deepest:
            raise Unreadable(f"it is nested deeper than {deepest}.", "too_deep")
        if count > MAX_EVENTS:
            raise Unreadable("it holds too many values; save it as JSONL.", "too_large")


def _written_out(value: Any, known: dict[int, int], above: set[int], depth: int) -> int:
    """How many values a value becomes with its aliases written out. Raises Unreadable past the limit."""
    if not isinstance(value, (list, dict)):
        return 1
    if id(value) in known:
        return known[id(value)]
    if id(value) in above or depth < 0:
        raise Unreadable("an alias in it refers to what it is part of.", "bad_yaml")
    above.add(id(value))
    children = value.values() if isinstance(value, dict) else value
    total = 1 + sum(_written_out(child, known, above, depth - 1) for child in children)
    above.discard(id(value))
    if total > MAX_VALUES:
        raise Unreadable("its aliases make it far larger than it is; save it as JSONL.", "too_large")
    known[id(value)] = total
    return total


ABOUT = replace(art_rows.LINES_ABOUT, setting="always on (mid-2025)", files="`…/{split}/{step:04d}.yaml`")
FORMAT = Format("art-yaml", "ART trajectory groups, YAML", sniff, read, about=ABOUT)
