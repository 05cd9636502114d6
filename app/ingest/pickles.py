"""What a pickle would import, found without running it: its opcodes are listed, never executed."""

import io
import pickletools
import warnings
import zipfile
from collections.abc import Iterator
from typing import Any

from app.ingest.archives import BROKEN

MAX_BYTES = 8 << 20
MAX_OPCODES = 2_000_000

#: Modules whose functions act on the machine: nothing in a data file has business there.
DANGEROUS = frozenset(
    (
        "os", "posix", "nt", "subprocess", "sys", "shutil", "socket", "pty", "runpy", "importlib", "ctypes",
        "commands", "platform", "webbrowser", "code", "codeop", "builtins", "__builtin__", "operator",
        "functools", "pickle", "_pickle", "multiprocessing", "threading", "signal", "tempfile",
    )
)  # fmt: skip
#: Of these modules only data is built.
HARMLESS = ("collections", "torch", "numpy", "_codecs", "copyreg", "copy_reg", "ml_dtypes", "tensordict")
HARMLESS_BUILTINS = frozenset(
    (
        "set", "frozenset", "dict", "list", "tuple", "bytearray", "bytes", "complex", "int", "float", "str",
        "bool", "range", "slice", "object",
    )
)  # fmt: skip


def globals_of(data: bytes) -> list[str]:
    """Full names of what the pickle refers to, in its order; as many as can be made out of damaged data."""
    found: list[str] = []
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # pickletools decodes old texts with escapes it warns of
            for name in _globals(data[:MAX_BYTES]):
                if name not in found:
                    found.append(name)
    except (ValueError, IndexError, KeyError, UnicodeDecodeError, OverflowError, MemoryError, TypeError):
        pass  # damaged or cut: what was found before stands
    return found


def _globals(data: bytes) -> Iterator[str]:
    texts: list[Any] = []  # texts in the order in which they were put on the stack, and memo reads of them
    memo: dict[int, Any] = {}
    for count, (opcode, argument, _) in enumerate(pickletools.genops(io.BytesIO(data))):
        if count > MAX_OPCODES:
            return
        name = opcode.name
        if name in ("GLOBAL", "INST"):
            yield str(argument).replace(" ", ".")
        elif name == "STACK_GLOBAL":
            yield ".".join(str(text) for text in texts[-2:])
        elif name == "MEMOIZE":
            memo[len(memo)] = texts[-1] if texts else None
        elif name in ("PUT", "BINPUT", "LONG_BINPUT"):
            memo[int(argument or 0)] = texts[-1] if texts else None
        elif name in ("GET", "BINGET", "LONG_BINGET"):
            texts.append(memo.get(int(argument or 0)))
        elif isinstance(argument, str):
            texts.append(argument)
        del texts[:-8]


def culprit(names: list[str]) -> tuple[str, bool] | None:
    """The global to name, and whether it is one that acts; None where only plain data is built."""
    for name in names:
        module, _, what = name.rpartition(".")
        root = module.partition(".")[0]
        if root in DANGEROUS and not (root in ("builtins", "__builtin__") and what in HARMLESS_BUILTINS):
            return name, True
    for name in names:
        if name.partition(".")[0] not in (*HARMLESS, "builtins", "__builtin__"):
            return name, False
    return None


def torch_pickle(archive: zipfile.ZipFile, most: int = MAX_BYTES) -> bytes | None:
    """The pickle inside a PyTorch archive, as far as it is looked at."""
    name = next(
        (name for name in archive.namelist() if name == "data.pkl" or name.endswith("/data.pkl")), None
    )
    if name is None:
        return None
    try:
        with archive.open(name) as stream:
            return stream.read(most)
    except BROKEN:
        return None
