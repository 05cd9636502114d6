"""Answers: JSON by orjson, zstd for big bodies, ETags, non-finite numbers, problem details.

Endpoints run in the thread pool, so that compressing here never stops the event loop; whatever leaves here
without a Content-Encoding may still be gzipped by the middleware.
"""

import hashlib
import json
import math
import struct
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
import orjson
import zstandard
from fastapi import Request, Response
from numpy.typing import NDArray

from storage.arrays import is_missing

#: From here zstd level 1 costs less than it saves.
BIG_BODY = 16 << 10

#: Bumped when the same stored rows would be shown differently, so that no client keeps an answer of an old
#: version.
REPRESENTATION = "1"

PROBLEM_JSON = "application/problem+json"


def dumps(content: Any) -> bytes:
    """JSON bytes; dataclasses as objects, numpy arrays as lists, non-finite numbers as null."""
    try:
        return orjson.dumps(content, option=orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS)
    except TypeError:
        # Half a character (a lone surrogate) in a model's text, or an integer beyond 64 bits: rare, and slow.
        return json.dumps(plain(content), separators=(",", ":")).encode()


def plain(content: Any) -> Any:
    """What Python's own JSON writer takes. Raises TypeError for anything that is not JSON."""
    if isinstance(content, np.ndarray | np.generic):
        return plain(content.tolist())
    if is_dataclass(content) and not isinstance(content, type):
        return {field.name: plain(getattr(content, field.name)) for field in fields(content)}
    if isinstance(content, Mapping):
        return {str(key): plain(value) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [plain(value) for value in content]
    return None if isinstance(content, float) and not math.isfinite(content) else content


def framed(header: Mapping[str, Any], body: bytes, align: int = 1) -> Response:
    """Little-endian: a uint32 with the size of the header, the header as JSON, zero bytes up to a multiple of
    `align`, the body. For a script of a page that was made a moment ago."""
    text = json.dumps(header).encode()
    return Response(
        struct.pack("<I", len(text)) + text + b"\0" * (-len(text) % align) + body,
        media_type="application/octet-stream",
        headers={"Cache-Control": "private, max-age=60"},
    )


def respond(
    request: Request,
    content: Any,
    status: int = 200,
    headers: Mapping[str, str] | None = None,
    etag: str | None = None,
) -> Response:
    """`content` as JSON, in zstd where it is big and the client takes it."""
    return body(request, dumps(content), "application/json", status, headers, etag)


def body(
    request: Request,
    data: bytes,
    media_type: str,
    status: int = 200,
    headers: Mapping[str, str] | None = None,
    etag: str | None = None,
) -> Response:
    """`data` as it is, in zstd where it is big and the client takes it."""
    extra = {"Cache-Control": "private, no-cache", **(headers or {})}
    if etag is not None:
        extra["ETag"] = etag
    if len(data) >= BIG_BODY:
        add_vary(extra, "Accept-Encoding")
        if accepts_encoding(request.headers.get("accept-encoding", ""), "zstd"):
            data = zstandard.ZstdCompressor(level=1).compress(data)
            extra["Content-Encoding"] = "zstd"
    return Response(data, status, extra, media_type)


def accepts_encoding(header: str, coding: str) -> bool:
    """True if an Accept-Encoding header names `coding` with a quality above zero."""
    for entry in header.split(","):
        name, _, parameters = entry.partition(";")
        if name.strip().lower() == coding:
            return parameters.replace(" ", "").lower() not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    return False


def add_vary(headers: dict[str, str], name: str) -> None:
    present = headers.get("Vary")
    if present is None:
        headers["Vary"] = name
    elif name.lower() not in present.lower():
        headers["Vary"] = f"{present}, {name}"


def etag(*parts: object) -> str:
    """A weak ETag of what decides the answer: ids of immutable things and the parameters of the view."""
    digest = hashlib.sha256("\x1f".join(map(str, (REPRESENTATION, *parts))).encode("utf-8", "replace"))
    return f'W/"{digest.hexdigest()[:24]}"'


def not_modified(request: Request, tag: str) -> Response | None:
    """The 304 answer, if the client has `tag` already; ask before anything is read."""
    known = request.headers.get("if-none-match")
    if known is None:
        return None
    if matches_any(known, tag):
        return Response(status_code=304, headers={"ETag": tag, "Cache-Control": "private, no-cache"})
    return None


def matches_any(header: str, tag: str) -> bool:
    """Whether a list of ETags, as If-Match and If-None-Match carry it, has `tag` in it, or is `*`."""
    opaque = tag.removeprefix("W/")
    return header.strip() == "*" or opaque in (part.strip().removeprefix("W/") for part in header.split(","))


def numbers(values: NDArray[Any]) -> tuple[NDArray[Any], dict[str, str]]:
    """What `dumps` shows exactly, and the `nonfinite` map for beside it.

    float32 is widened first: its shortest text is another float64 than the number that is stored. A value
    that was recorded as null is null without an entry.
    """
    if values.dtype.kind != "f":
        return np.ascontiguousarray(values), {}
    odd = np.flatnonzero(~np.isfinite(values))
    named = odd[~is_missing(values[odd])] if odd.size else odd
    names = {str(int(i)): nonfinite_name(float(values[i])) for i in named}
    return np.ascontiguousarray(values, dtype=np.float64), names


def nonfinite_name(value: float) -> str:
    if np.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"


def arrays(named: Mapping[str, Any]) -> dict[str, Any]:
    """Several arrays of one object, with one `nonfinite` map: field -> index -> "NaN", "Infinity" …"""
    shown: dict[str, Any] = {}
    odd: dict[str, dict[str, str]] = {}
    for name, values in named.items():
        if isinstance(values, np.ndarray):
            shown[name], names = numbers(values)
            if names:
                odd[name] = names
        else:
            shown[name] = values
    return {**shown, "nonfinite": odd}


def problem(
    status: int,
    title: str,
    detail: str,
    problems: Iterable[dict[str, Any]] = (),
    kind: str | None = None,
    headers: Mapping[str, str] | None = None,
    **members: Any,
) -> Response:
    """RFC 9457 problem details. `detail` says what to do; `problems` lists rows or fields at fault."""
    listed = list(problems)
    content = {
        "type": f"urn:vantage:{kind}" if kind else "about:blank",
        "title": title,
        "status": status,
        "detail": detail,
        **({"problems": listed} if listed else {}),
        **members,
    }
    extra = {"Cache-Control": "no-store", **(headers or {})}
    return Response(dumps(content), status, extra, PROBLEM_JSON)
