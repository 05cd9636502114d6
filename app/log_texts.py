"""What a log line may say: never a word of the data, whoever wrote the line.

The message of an exception may quote a row of a file, a prompt, a token or a password, and so may the line
that a library makes of it. So of an exception only its class and its places in the source are logged, and of
a library's line only the words that stand in the library's source.
"""

import ast
import logging
import sys
import threading
import traceback
from functools import lru_cache
from pathlib import Path
from types import TracebackType

from structlog.typing import EventDict

#: Loggers whose lines are made here; any other is a library's.
OURS = "vantage"
#: Stands in a library's line for what was put into it.
HOLE = "…"
METHODS = ("debug", "info", "warning", "warn", "error", "exception", "critical")
FRAMES = 12

Raised = tuple[type[BaseException], BaseException, TracebackType | None]


def without_texts(_logger: object, _method: str, event: EventDict) -> EventDict:
    """A processor: the exception of a line as classes and places, a library's line as its source has it."""
    raised = caught(event.pop("exc_info", None))
    if raised is not None:
        event["exception"] = outline(raised[1])
    record = event.get("_record")
    if record is not None and not event.get("_from_structlog") and record.name.partition(".")[0] != OURS:
        event["event"] = words_of(record)
    return event


def caught(exc_info: object) -> Raised | None:
    """What a log call was given as `exc_info`, in its long form."""
    if isinstance(exc_info, BaseException):
        return type(exc_info), exc_info, exc_info.__traceback__
    if isinstance(exc_info, tuple):
        return exc_info if exc_info[1] is not None else None
    found = sys.exc_info() if exc_info else (None, None, None)
    return None if found[1] is None else (type(found[1]), found[1], found[2])


def outline(error: BaseException) -> str:
    """The exception and what led to it: a line for each class, a line for each place, no message."""
    lines: list[str] = []
    seen: set[int] = set()
    following: BaseException | None = error
    while following is not None and id(following) not in seen:
        seen.add(id(following))
        kind = type(following)
        lines.append(f"{'from ' if lines else ''}{kind.__module__}.{kind.__qualname__}")
        lines += [f"  {place}" for place in places(following)]
        following = following.__cause__ or following.__context__
    return "\n".join(lines)


def places(error: BaseException) -> list[str]:
    """Where the exception came through, the innermost place last."""
    frames = traceback.extract_tb(error.__traceback__)[-FRAMES:]
    return [f"{Path(frame.filename).name}:{frame.lineno} {frame.name}" for frame in frames]


def words_of(record: logging.LogRecord) -> str:
    """The constant words of the call that made a library's line, and where the call is."""
    place = f"{Path(record.pathname).name}:{record.lineno} {record.funcName}"
    words = " ".join(spoken(record.pathname).get(record.lineno, HOLE).split())
    return f"{words} ({record.name}, {place})"


@lru_cache(maxsize=64)
def spoken(path: str) -> dict[int, str]:
    """By line of a source file: the constant words of the log call there."""
    try:
        tree = ast.parse(Path(path).read_bytes())
    except (OSError, ValueError, SyntaxError):
        return {}
    found: dict[int, str] = {}
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(attr=method), args=[first, *_]) if method in METHODS:
                for line in range(node.lineno, (node.end_lineno or node.lineno) + 1):
                    found.setdefault(line, constant_words(first))
    return found


def constant_words(node: ast.expr) -> str:
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=parts):
            return "".join(constant_words(part) for part in parts)
        case ast.BinOp(left=left, right=right):
            return constant_words(left) + constant_words(right)
    return HOLE


def log_what_nobody_caught() -> None:
    """Make a log line of an exception that ends the process or a thread: Python would print its message."""
    log = logging.getLogger(f"{OURS}.process")

    def ended(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if issubclass(kind, KeyboardInterrupt):
            sys.__excepthook__(kind, error, trace)
        else:
            log.critical("ended by an error nobody thought of", exc_info=(kind, error, trace))

    def thread_ended(given: threading.ExceptHookArgs) -> None:
        if given.exc_value is not None and not isinstance(given.exc_value, SystemExit):
            log.error("a thread was ended by an error", exc_info=given.exc_value)

    sys.excepthook = ended
    threading.excepthook = thread_ended
