"""Files of the interface. An address that names its content (a digest or a version) may be kept for ever."""

import gzip
from functools import lru_cache
from pathlib import Path

from fastapi import APIRouter
from starlette.datastructures import Headers
from starlette.responses import FileResponse, Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from app.responses import accepts_encoding
from app.settings import ROOT

STATIC = ROOT / "static"
FOR_EVER = "public, max-age=31536000, immutable"
TEXTS = (".js", ".css", ".svg")


class Assets(StaticFiles):
    """`?v=<digest>` and versioned file names in vendor/ are immutable; anything else is asked for again.

    Texts are packed once at the best level: the largest is 1.5 MB, too much to pack for each request.
    """

    async def get_response(self, path: str, scope: Scope) -> Response:
        response = await super().get_response(path, scope)
        named = b"v=" in scope.get("query_string", b"") or path.startswith("vendor/")
        response.headers["Cache-Control"] = FOR_EVER if named else "no-cache"
        takes_gzip = accepts_encoding(Headers(scope=scope).get("accept-encoding", ""), "gzip")
        if response.status_code != 200 or not path.endswith(TEXTS) or not takes_gzip:
            return response
        full_path, found = self.lookup_path(path)
        if found is None:
            return response
        body = b"" if scope["method"] == "HEAD" else packed(Path(full_path), found.st_mtime_ns)
        headers = {name: value for name, value in response.headers.items() if name != "content-length"}
        sent = Response(body, headers={**headers, "Content-Encoding": "gzip", "Vary": "Accept-Encoding"})
        return sent


@lru_cache(maxsize=64)
def packed(path: Path, _changed: int) -> bytes:
    """The file, gzipped. `_changed` makes an edited file another one."""
    return gzip.compress(path.read_bytes(), 9, mtime=0)


router = APIRouter()


@router.get("/favicon.ico", include_in_schema=False)
def favicon() -> FileResponse:
    """Where browsers ask without having read a page."""
    return FileResponse(STATIC / "favicon.svg", headers={"Cache-Control": "public, max-age=86400"})


def static_files() -> Assets:
    return Assets(directory=STATIC)
