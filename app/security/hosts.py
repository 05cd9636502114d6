"""Who may ask: the Host and Origin checks. They keep pages elsewhere in the browser from reading or writing.

A name that an attacker's DNS points here (DNS rebinding) is not one of ours, so its Host header is refused.
A page of another origin shows itself by `Origin` or `Sec-Fetch-Site`. Clients that are not browsers send
neither.
"""

from collections.abc import Callable
from ipaddress import ip_address
from urllib.parse import urlsplit

from fastapi import Request, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from app.errors import AppError, BadRequest, Forbidden
from app.settings import Settings

LOOPBACK = ("127.0.0.1", "localhost", "::1")
ANY_ADDRESS = ("0.0.0.0", "::", "")
SAFE_METHODS = ("GET", "HEAD", "OPTIONS", "TRACE")

Refuse = Callable[[Request, AppError], Response]


def guard(app: ASGIApp, settings: Settings, refuse: Refuse) -> ASGIApp:
    """An ASGI middleware that answers by `refuse` whatever may not be asked."""

    async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
        error = refusal(Request(scope), settings) if scope["type"] == "http" else None
        if error is None:
            await app(scope, receive, send)
        else:
            await refuse(Request(scope), error)(scope, receive, send)

    return guarded


def refusal(request: Request, settings: Settings) -> AppError | None:
    """Why this request may not be answered, or None."""
    if "\x00" in request.url.path or b"%00" in request.scope.get("query_string", b""):
        return BadRequest("The address holds a NUL character. Leave it out: no name or id here has one.")
    hosts = request.headers.getlist("host")
    if len(hosts) > 1:
        return BadRequest("The request has several Host headers. Send one.")
    host = hosts[0] if hosts else ""
    if not host_allowed(host, settings):
        names = ", ".join((*LOOPBACK, *settings.allowed_hosts))
        return Forbidden(
            f"The server does not answer to the name in this request's Host header, only to {names}. "
            "Open it by one of these, or list the name in VANTAGE_ALLOWED_HOSTS."
        )
    if foreign(request, host):
        return Forbidden(
            "The request comes from a page of another origin. Open this server's own address in the browser; "
            "scripts outside a browser send no Origin header."
        )
    return None


def host_allowed(header: str, settings: Settings) -> bool:
    """True for loopback names, the bound address and VANTAGE_ALLOWED_HOSTS ("*.example.org" takes
    subdomains).

    Bound to every address, any literal address is taken too: rebinding needs a name.
    """
    name = host_name(header)
    if name is None:
        return False
    if name in LOOPBACK or name == settings.host.lower():
        return True
    if settings.host in ANY_ADDRESS and is_address(name):
        return True
    return any(matches(name, pattern.lower()) for pattern in settings.allowed_hosts)


def matches(name: str, pattern: str) -> bool:
    return name.endswith(pattern[1:]) if pattern.startswith("*.") else name == pattern


def host_name(header: str) -> str | None:
    """The name of a Host header, in lower case and without its port; None where it is malformed."""
    try:
        parts = urlsplit(f"//{header}")
        _ = parts.port
    except ValueError:
        return None
    plain = parts.path == "" and parts.query == "" and parts.fragment == "" and "@" not in header
    return parts.hostname if plain else None


def is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def foreign(request: Request, host: str) -> bool:
    """True if a page of another origin sent the request. Following a link to a page here is not that."""
    origin = request.headers.get("origin")
    if origin is not None and not same_origin(origin, host):
        return True
    if request.headers.get("sec-fetch-site", "none") in ("none", "same-origin"):
        return False
    followed = (
        request.headers.get("sec-fetch-mode") == "navigate"
        and request.headers.get("sec-fetch-dest") == "document"
        and request.method in SAFE_METHODS
    )
    return not followed


def same_origin(origin: str, host: str) -> bool:
    """True if an Origin header names the server that the Host header names. The scheme may differ: a proxy
    ends TLS."""
    try:
        if "@" in origin:  # an origin has no user name; only forged ones do
            return False
        parts = urlsplit(origin)
        own = urlsplit(f"//{host}")
        standard = {"http": 80, "https": 443}.get(parts.scheme)
        if standard is None or parts.hostname != own.hostname:
            return False
        return (parts.port or standard) == (own.port or standard)
    except ValueError:
        return False
