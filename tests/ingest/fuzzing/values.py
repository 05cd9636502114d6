"""Swapped fields and odd values of documents: JSON, JSONL and msgpack, in any framework's rows."""

import copy
import json
import random
from typing import Any

import msgspec

ODD: tuple[Any, ...] = (
    None, True, 0, -1, 7.5, float("nan"), float("-inf"), 10**25, 2**63, "", "x", "\ud800", "\0", [], [None],
    [[]], {}, {"a": [1]}, [1, 2, 3], [{"role": "assistant", "content": None}], ["7"], {"role": 1},
    [True, False], "9" * 5000, [1e39, 1e308], [[[1]]], '\u202e=HYPERLINK("x")', {"": {}}, list(range(2000)),
    "x" * 100_000,
)  # fmt: skip


def spots(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Where a value can be exchanged; of long lists the first entries."""
    found = [path] if path else []
    if isinstance(value, dict):
        for key in value:
            found += spots(value[key], (*path, key))
    elif isinstance(value, list):
        for index in range(min(len(value), 3)):
            found += spots(value[index], (*path, index))
    return found


def exchanged(document: Any, source: random.Random) -> Any:
    """The document with one to three values exchanged, swapped, left out, renamed or put twice."""
    document = copy.deepcopy(document)
    for _ in range(source.randint(1, 3)):
        found = spots(document)
        if not found:
            break
        *path, last = source.choice(found)
        place = document
        try:
            for key in path:
                place = place[key]
            _change(place, last, source)
        except (KeyError, IndexError, TypeError):
            continue
    return document


def _change(place: Any, last: Any, source: random.Random) -> None:
    match source.randrange(6):
        case 0:
            del place[last]
        case 1 if isinstance(place, list):
            place.insert(last, copy.deepcopy(place[last]))
        case 1 | 2 if isinstance(place, dict):
            other = source.choice(list(place))
            place[last], place[other] = place[other], place[last]
        case 3 if isinstance(place, dict):
            place[source.choice((last + "2", "", "uid", "reward", "response", "step"))] = place.pop(last)
        case _:
            place[last] = copy.deepcopy(source.choice(ODD))


def rows_of(data: bytes) -> tuple[list[Any], str] | None:
    """The JSON document, or the JSON lines and what stands between them; None for what is neither."""
    try:
        text = data.decode()
        try:
            return [json.loads(text)], ""
        except ValueError:
            rows = [json.loads(line) for line in text.splitlines()]
            return (rows, "\n") if rows else None
    except (ValueError, RecursionError):
        return None


def documents(data: bytes, source: random.Random) -> bytes | None:
    """Some rows with exchanged values; None where the data is no JSON."""
    found = rows_of(data)
    if found is None:
        return None
    rows, separator = found
    for _ in range(source.randint(1, 2)):
        at = source.randrange(len(rows))
        rows[at] = exchanged(rows[at], source)
    texts = [json.dumps(row) for row in rows]
    if not source.randrange(5):
        at = source.randrange(len(texts))
        texts[at] = repeated(texts[at], source)
    return (separator.join(texts) + separator).encode()


def repeated(text: str, source: random.Random) -> str:
    """The object with a key given twice, nested too deep, or with a very long key."""
    match source.randrange(3):
        case 0:
            key = json.dumps(source.choice(("response", "reward", "prompt", "uid", "step")))
            new = f"{key}: {json.dumps(source.choice(ODD))}, "
        case 1:
            depth = source.choice((60, 64, 65, 5000))
            new = f'"deep": {"[" * depth}{"]" * depth}, '
        case _:
            new = f'"{"k" * 50_000}": 1, '
    return text.replace("{", "{" + new, 1)


def packed(data: bytes, source: random.Random) -> bytes | None:
    """The same for msgpack; None where the data is none."""
    if data[:1] not in (bytes([byte]) for byte in (*range(0x80, 0xA0), 0xDC, 0xDD, 0xDE, 0xDF)):
        return None
    try:
        document = exchanged(msgspec.msgpack.decode(data), source)
        return msgspec.msgpack.encode(document)
    except (ValueError, OverflowError, msgspec.DecodeError, RecursionError):
        return None
