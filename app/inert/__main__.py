"""`python -m app.inert FILE MEMORY SECONDS`: the rows of a file to standard output, or why it is refused.

Each message is two lengths (8 bytes each, little-endian), JSON of the first length, bytes of the second: a
header {"layout", …}, rows {"values", "arrays": [[name, dtype, shape], …]} with the arrays' bytes, then
{"end": rows}; or {"refused": sentence, "code": …} at any place.
"""

import json
import mmap
import os
import resource
import sys
from typing import Any, BinaryIO

import numpy as np

from app.inert.files import value
from app.inert.layouts import layout
from app.inert.plain import Budget, plain, split
from app.inert.values import Refused


def main(path: str, memory: int, seconds: int, out: BinaryIO) -> None:
    """Read the file and write its messages. Never raises for what the file holds."""
    count = [0]
    # What was read is given up before the refusal is written: that needs memory, too.
    if (refused := _read(path, memory, seconds, out, count)) is not None:
        message, code = refused
        _send(out, {"refused": message, "code": code, "rows": count[0]})


def _read(path: str, memory: int, seconds: int, out: BinaryIO, count: list[int]) -> tuple[str, str] | None:
    """Why the file is refused, None where it was read to its end; `count` of rows that were written."""
    try:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            if not size:
                return "the file is empty", "empty"
            data = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        _limit(memory, size, seconds)
        root, replaced = value(data)
        found = layout(root)
        head = {
            "layout": found.name, "names": list(found.columns), "others": plain(found.others, Budget()),
            "left_out": found.left_out, "replaced": replaced, "rows": len(found.rows) or found.size,
        }  # fmt: skip
        _send(out, head)
        for row in found.each():
            _send_row(out, row)
            count[0] += 1
        _send(out, {"end": count[0]})
    except Refused as error:
        return str(error), error.code
    except MemoryError:
        return "it needs more memory than a file of its size may (VANTAGE_PICKLE_MEMORY_BYTES)", "too_large"
    except RecursionError:
        return "it is nested too deep", "too_deep"
    return None


def _limit(memory: int, size: int, seconds: int) -> None:
    """From here on no more memory than that beside what is used and the file itself, no files, no core."""
    used = 0
    if os.path.exists("/proc/self/statm"):
        with open("/proc/self/statm") as file:
            used = int(file.read().split()[0]) * resource.getpagesize()
    limits = [(resource.RLIMIT_CORE, 0), (resource.RLIMIT_FSIZE, 0), (resource.RLIMIT_CPU, seconds)]
    if used:
        limits.append((resource.RLIMIT_AS, used + size + memory))
    for kind, most in limits:
        _, hard = resource.getrlimit(kind)
        if hard == resource.RLIM_INFINITY or most < hard:
            resource.setrlimit(kind, (most, most))


def _send_row(out: BinaryIO, row: dict[Any, Any]) -> None:
    values, found = split(row)
    bodies, shapes = [], []
    for name, array in found:
        kind = array.dtype.newbyteorder("<") if array.dtype.byteorder == ">" else array.dtype
        body = np.ascontiguousarray(array, kind)
        shapes.append([name, kind.str, list(array.shape)])
        bodies.append(body.reshape(-1).view(np.uint8).data)
    _send(out, {"values": values, "arrays": shapes}, bodies)


def _send(out: BinaryIO, message: dict[str, Any], bodies: list[memoryview] | None = None) -> None:
    head = json.dumps(message).encode()
    out.write(len(head).to_bytes(8, "little") + sum(map(len, bodies or ())).to_bytes(8, "little") + head)
    for body in bodies or ():
        out.write(body)
    out.flush()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.stdout.buffer)
