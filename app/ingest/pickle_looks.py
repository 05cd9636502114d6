"""A look at how a pickle or a PyTorch file begins: the first names and texts in it. Nothing of it is run."""

import pickletools
import warnings
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO

from app.ingest.archives import BROKEN, member_names, zip_kind
from app.ingest.pickles import torch_pickle
from app.ingest.record import Source

MEMO = "pickle_look"
OPCODES = 4_000
BYTES = 1 << 16
PROTOCOLS = (b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05")
_TEXTS = ("BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8", "UNICODE")


@dataclass(frozen=True, slots=True)
class Look:
    """`torch`: a file of torch.save. `root`: the first opcode. `names`: what it refers to, as module.name."""

    torch: bool
    root: str
    names: tuple[str, ...]
    texts: tuple[str, ...]


def look(source: Source) -> Look | None:
    """How the file begins, None where it is no pickle."""
    if MEMO not in source.memo:
        source.memo[MEMO] = _look(source)
    found: Look | None = source.memo[MEMO]
    return found


def _look(source: Source) -> Look | None:
    if source.path is None:
        return None
    if source.head.startswith(PROTOCOLS):
        return _of(source.head, False)
    if not source.head.startswith(b"PK\x03\x04"):
        return None
    members = member_names(source.path)
    if members is None or zip_kind(members) != "torch":
        return None
    try:
        with zipfile.ZipFile(source.path) as archive:
            data = torch_pickle(archive, BYTES)
    except BROKEN:
        return None
    return None if data is None else _of(data, True)


def _of(data: bytes, torch: bool) -> Look:
    root, names, texts = "", list[str](), list[str]()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for opcode, argument in _opcodes(data):
                if opcode in ("PROTO", "FRAME"):
                    continue
                root = root or opcode
                if opcode == "GLOBAL":
                    names.append(str(argument).replace(" ", "."))
                elif opcode == "STACK_GLOBAL":
                    names.append(".".join(texts[-2:]))
                elif opcode in _TEXTS:
                    texts.append(str(argument))
    except (ValueError, IndexError, KeyError, UnicodeDecodeError, OverflowError, MemoryError, TypeError):
        pass  # cut off here, or damaged: what was found before stands
    return Look(torch, root, tuple(names), tuple(texts))


def _opcodes(data: bytes) -> Iterator[tuple[str, object]]:
    for count, (opcode, argument, _) in enumerate(pickletools.genops(BytesIO(data))):
        if count > OPCODES:
            return
        yield opcode.name, argument
