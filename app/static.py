"""Files of the interface. An address that names its content (a digest or a version) may be kept for ever."""

from starlette.responses import Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from app.settings import ROOT

STATIC = ROOT / "static"
FOR_EVER = "public, max-age=31536000, immutable"


class Assets(StaticFiles):
    """`?v=<digest>` and versioned file names in vendor/ are immutable; anything else is asked for again."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        response = await super().get_response(path, scope)
        named = b"v=" in scope.get("query_string", b"") or path.startswith("vendor/")
        response.headers["Cache-Control"] = FOR_EVER if named else "no-cache"
        return response


def static_files() -> Assets:
    return Assets(directory=STATIC)
