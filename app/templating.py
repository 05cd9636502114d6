"""The Jinja environment and the two answers of every page: HTML, and the same dataclass as JSON.

A page is a frozen dataclass whose fields are the template's variables. `here` (where the page is, and its
JSON beside it) is the only other one. A variable that nobody gave is an error, and everything is escaped.
"""

import hashlib
import json
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from fastapi import Request, Response
from fastapi.responses import HTMLResponse
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from app import drawing, formatting, tokens
from app.responses import dumps

ROOT = Path(__file__).resolve().parent.parent
STATIC = ROOT / "static"


@dataclass(frozen=True, slots=True)
class Crumb:
    """One step of the way to a page; the last one has no `href`."""

    text: str
    href: str | None = None


@dataclass(frozen=True, slots=True)
class Here:
    """Where a page is: its own address, its JSON beside it, the part of the header that is lit, and the
    server's own origin as the reader sees it. `insecure`: whoever reaches the server may do everything."""

    path: str
    json_url: str
    section: str
    origin: str = ""
    insecure: bool = False

    def url(self, **changes: Any) -> str:
        """This page's address with some query parameters replaced; None takes one away."""
        return self.path.partition("?")[0] + self.query(**changes)

    def query(self, **changes: Any) -> str:
        """The query of this page's address alone, likewise: for a neighbour to be seen the same way."""
        return with_query(self.path.partition("?")[2], **changes)


@dataclass(frozen=True, slots=True)
class Vendored:
    url: str
    integrity: str


@dataclass(frozen=True, slots=True)
class ErrorPage:
    """What a person sees in place of a page. `problems` as in problem details: row, field, message."""

    title: str
    status: int
    detail: str
    problems: tuple[Mapping[str, Any], ...]
    crumbs: tuple[Crumb, ...]


def with_query(query: str, **changes: Any) -> str:
    """`?a=1&b=2` with the changes applied, keeping the order; empty where nothing is left."""
    pairs = [part.split("=", 1) for part in query.split("&") if "=" in part]
    kept = [f"{key}={value}" for key, value in pairs if key not in changes]
    added = urlencode({k: v for k, v in changes.items() if v is not None}, errors="replace")
    text = "&".join([*kept, *([added] if added else [])])
    return f"?{text}" if text else ""


@lru_cache(maxsize=256)
def asset(path: str) -> str:
    """The address of a file in static/, with a digest of its content so that it may be kept for ever."""
    digest = hashlib.sha256((STATIC / path).read_bytes()).hexdigest()[:10]
    return f"/static/{path}?v={digest}"


@lru_cache(maxsize=16)
def vendor(name: str) -> Vendored:
    """A third-party file by its name in static/vendor/manifest.json."""
    entry = manifest()[name]
    return Vendored(f"/static/vendor/{entry['file']}", entry["sha384"])


@lru_cache(maxsize=1)
def manifest() -> dict[str, dict[str, Any]]:
    loaded: dict[str, dict[str, Any]] = json.loads((STATIC / "vendor" / "manifest.json").read_text())
    return loaded


def island(value: Any) -> Markup:
    """JSON for a `<script type="application/json">`: nothing in it can end the element or start another."""
    text = dumps(value).decode()
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)


def panel_json(panel: Mapping[str, Any]) -> str:
    """What is pinned, as JSON for an attribute; names without a value are left out."""
    return json.dumps({name: value for name, value in panel.items() if value is not None})


def by_estimator(conventions: Sequence[Any]) -> list[tuple[str, list[Any]]]:
    """Estimator -> its conventions, both in order of appearance."""
    groups: dict[str, list[Any]] = {}
    for each in conventions:
        groups.setdefault(each.estimator, []).append(each)
    return list(groups.items())


def pretty(value: Any) -> str:
    """JSON that a person reads."""
    return json.dumps(value, indent=2, ensure_ascii=False, default=str)


@lru_cache(maxsize=1)
def environment() -> Environment:
    """The one environment: autoescape on, undefined names are errors."""
    env = Environment(
        loader=FileSystemLoader(ROOT / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    env.globals.update(asset=asset, vendor=vendor, draw=drawing, classes=_classes, made_once=made_once)
    env.filters.update(
        urlencode=url_text,
        num=formatting.number,
        signed=formatting.signed,
        integer=formatting.integer,
        pct=formatting.percent,
        bytes=formatting.size,
        duration=formatting.duration,
        ago=formatting.ago,
        iso=formatting.iso,
        plural=formatting.plural,
        shown=tokens.shown,
        plain=tokens.plain,
        token_html=tokens.chunk_html,
        island=island,
        panel_json=panel_json,
        pretty=pretty,
        by_estimator=by_estimator,
    )
    return env


@lru_cache(maxsize=32)
def made_once(template: str, macro: str, value: Hashable) -> Markup:
    """What a macro of a template makes of a value: for a long part that the pages of many batches share."""
    return Markup(getattr(environment().get_template(template).module, macro)(value))


def url_text(value: Any) -> str:
    """Text for an address; half a character, which no address can hold, becomes a question mark."""
    return quote(str(value), safe="/", errors="replace")


def render(template: str, page: Any, here: Here) -> str:
    """The template filled from the fields of the dataclass `page`."""
    values = {field.name: getattr(page, field.name) for field in fields(page)}
    return environment().get_template(template).render(values, here=here)


def html(request: Request, template: str, page: Any, section: str = "", status: int = 200) -> HTMLResponse:
    """The page as HTML, with `Link: rel=alternate` to its JSON."""
    here = locate(request, section)
    headers = {"Link": f'<{here.json_url}>; rel="alternate"; type="application/json"'}
    # Half a character (a lone surrogate) in a form's value cannot be sent as it is.
    content = render(template, page, here).encode("utf-8", "replace")
    return HTMLResponse(content, status_code=status, headers=headers)


def data(request: Request, page: Any) -> Response:
    """The page's dataclass as JSON, with `Link: rel=alternate` to the HTML."""
    path = quote(request.url.path.removesuffix(".json"))
    path = "/" if path in ("", "/index") else path
    query = f"?{request.url.query}" if request.url.query else ""
    headers = {"Link": f'<{path}{query}>; rel="alternate"; type="text/html"'}
    return Response(dumps(page), media_type="application/json", headers=headers)


def error(
    request: Request, status: int, title: str, detail: str, problems: Sequence[Mapping[str, Any]] = ()
) -> HTMLResponse:
    """The page for what could not be answered."""
    page = ErrorPage(title, status, detail, tuple(problems), (Crumb(title),))
    return html(request, "pages/error.html", page, status=status)


def token_head(shown: Any, here: Here) -> str:
    """What stands above the tokens of the response in `shown` (`app.pages.reading.Shown`), alone."""
    module = environment().get_template("parts/tokens.html").module
    return str(module.token_head(shown, here))  # type: ignore[attr-defined] # a macro of the template


def locate(request: Request, section: str, below: str = "") -> Here:
    """Where the request is; `below`: the end of its path, for what belongs to the page above it."""
    path = quote(
        request.url.path.removesuffix(below)
    )  # decoded by the server; a header and an address take ASCII only
    query = f"?{request.url.query}" if request.url.query else ""
    beside = "/index.json" if path == "/" else f"{path.removesuffix('.json')}.json"
    origin = f"{request.url.scheme}://{request.url.netloc}"
    return Here(path + query, beside + query, section, origin, request.app.state.settings.open_to_all)


def as_dict(page: Any) -> dict[str, Any]:
    """The dataclass as plain dicts, for a caller that renders elsewhere."""
    return asdict(page)


def _classes(*names: str | bool | None) -> str:
    """The CSS classes among `names` that are there: `classes('cell', dead and 'dead')`."""
    return " ".join(name for name in names if isinstance(name, str) and name)
