"""A file's header as settings: nested objects, dotted keys, flags of a command line, values as text."""

import json
import shlex
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

#: What a header says besides a configuration: about the file, the run, and how it was read.
OWN = frozenset({
    "schema", "version", "run", "provenance", "reproducer", "table", "framework", "framework_version",
    "reward_functions", "eval", "alignment", "pad_token_id", "eos_token_id",
})  # fmt: skip
#: Keys under which a header may hold a command line.
COMMANDS = ("args", "argv", "cli", "command", "command_line", "overrides")
#: Keys whose objects choose an estimator and hold its settings as well.
OPENED = ("adv_estimator", "advantage_estimator", "algo")
#: How deep objects may lie in each other.
DEEP = 8
#: A longer text is no number, switch or list of weights.
LONG = 400
_WORDS = {"true": True, "false": False, "none": None, "null": None, "~": None}


@dataclass(frozen=True, slots=True)
class Settings:
    """values  key of a table -> value, the one that lies highest where there are several
    others  keys that no table has, by their whole path
    """

    values: dict[str, Any] = field(default_factory=dict)
    others: dict[str, Any] = field(default_factory=dict)

    def flag(self, name: str) -> bool | None:
        """A switch, also as a text or number; None where it is not given or is neither."""
        for value in readings(self.values.get(name)):
            if isinstance(value, bool) or (isinstance(value, int) and value in (0, 1)):
                return bool(value)
        return None

    def word(self, name: str) -> str | None:
        """A word, lower case, with null as "none" and switches as "true" and "false"; None: not given."""
        if name not in self.values:
            return None
        return str(self.values[name]).strip().lower()

    def number(self, name: str) -> float | None:
        for value in readings(self.values.get(name)):
            if isinstance(value, (int, float)) and not isinstance(value, bool):
                return float(value)
        return None


def settings(header: Mapping[str, Any], known: Collection[str]) -> Settings:
    """The settings of a header. `known`: keys of the framework's table, some of them ends of dotted paths; an
    object under a known key is its value, any other is looked into."""
    found = Settings()
    level: list[tuple[str, Mapping[str, Any]]] = [("", nested(header))]
    for _ in range(DEEP):
        below: list[tuple[str, Mapping[str, Any]]] = []
        for path, values in level:
            for name, value in values.items():
                if not path and name in OWN and name not in known:
                    continue
                whole = f"{path}.{name}" if path else name
                if isinstance(value, str) and value.startswith("${"):
                    continue  # Stands for another key's value, which is read there.
                key = known_as(whole, known)
                if key is not None:
                    found.values.setdefault(key, value)
                if isinstance(value, Mapping) and (key is None or key in OPENED):
                    below.append((whole, value))
                elif key is None:
                    found.others.setdefault(whole, value)
        level = below
    return found


def known_as(path: str, known: Collection[str]) -> str | None:
    """The longest end of the path that is a key."""
    parts = path.split(".")
    ends = (".".join(parts[start:]) for start in range(len(parts)))
    return next((end for end in ends if end in known), None)


def nested(header: Mapping[str, Any], depth: int = 0) -> dict[str, Any]:
    """The header with dotted keys as objects in each other, dashes as in Python, and command lines read."""
    found: dict[str, Any] = {}
    for key, value in _entries(header):
        parts = plain(key).split(".", DEEP)
        place = found
        for part in parts[:-1]:
            inner = place.setdefault(part, {})
            if not isinstance(inner, dict):
                break
            place = inner
        else:
            inside = isinstance(value, Mapping) and depth < DEEP
            given = nested(value, depth + 1) if inside else value
            there = place.get(parts[-1])
            if isinstance(there, dict) and isinstance(given, dict):
                place[parts[-1]] = {**given, **there}
            else:
                place.setdefault(parts[-1], given)
    return found


def plain(key: Any) -> str:
    return str(key).strip().lstrip("-+").replace("-", "_")


def _entries(header: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for key, value in header.items():
        words = _command(key, value)
        if words is None:
            yield str(key), value
        else:
            yield from flags(words)


def _command(key: Any, value: Any) -> list[str] | None:
    """The words of a command line; None where it is something else."""
    if plain(key) not in COMMANDS:
        return None
    if isinstance(value, str):
        try:
            return shlex.split(value)
        except ValueError:
            return None
    return list(value) if isinstance(value, list) and all(isinstance(each, str) for each in value) else None


def flags(words: list[str]) -> Iterator[tuple[str, Any]]:
    """`--name value`, `--name=value`, `--switch` and `a.b=value` as names and values."""
    place = 0
    while place < len(words):
        word = words[place]
        place += 1
        name, equals, value = word.partition("=")
        if equals:
            yield name, value
        elif word.startswith("--"):
            values = []
            while place < len(words) and not words[place].startswith("--") and "=" not in words[place]:
                values.append(words[place])
                place += 1
            yield word, True if not values else values[0] if len(values) == 1 else values


def readings(value: Any) -> list[Any]:
    """The value, and what it means where it is a text of a number, a switch, null or a list."""
    if isinstance(value, list) and value and all(isinstance(each, str) for each in value):
        return [value, [readings(each)[-1] for each in value]]
    if not isinstance(value, str) or len(value) > LONG:
        return [value]
    said = value.strip()
    if said.lower() in _WORDS:
        return [value, said.lower(), _WORDS[said.lower()]]
    for written in (said, f"[{said}]", "[" + ",".join(said.split()) + "]"):
        try:
            return [value, said.lower(), json.loads(written)]
        except ValueError:
            continue
    try:
        return [value, float(said)]
    except ValueError:
        return [value, said.lower()]
