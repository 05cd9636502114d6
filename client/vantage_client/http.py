"""Requests to a Vantage server with the standard library: answers, and what a failure means."""

import json
import urllib.error
import urllib.request
from dataclasses import dataclass
from typing import IO, Any
from urllib.parse import quote, urlencode, urlsplit

#: Answers that another try may change, besides those of 500 and above.
PASSING = frozenset((408, 425, 429))


class Away(Exception):
    """The server does not answer, or says that it cannot now."""


class Refused(Exception):
    """The server says no; the message is its sentence."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True)
class Answer:
    status: int
    kind: str
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True)
class Server:
    """Where the server is, and the token that it wants."""

    url: str
    token: str | None = None
    timeout: float = 30.0

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{self.url!r} is not the address of a server: give it as http://host:port")

    def ask(
        self,
        path: str,
        query: dict[str, Any] | None = None,
        body: bytes | IO[bytes] | None = None,
        headers: dict[str, str] | None = None,
        method: str | None = None,
    ) -> Answer:
        """The answer of success. Raises Away, Refused."""
        given = {name: value for name, value in (query or {}).items() if value is not None}
        address = self.url.rstrip("/") + quote(path, safe="/%") + (f"?{urlencode(given)}" if given else "")
        sent = dict(headers or {})
        if self.token is not None:
            sent["Authorization"] = f"Bearer {self.token}"
        request = urllib.request.Request(address, data=body, headers=sent, method=method)
        try:
            with urllib.request.urlopen(request, timeout=self.timeout) as answer:
                return Answer(answer.status, answer.headers.get_content_type(), answer.read())
        except urllib.error.HTTPError as error:
            raise _failure(error) from None
        except (OSError, urllib.error.URLError) as error:
            reason = getattr(error, "reason", error)
            raise Away(f"{self.url} does not answer ({reason})") from None
        except Exception as error:  # http.client has errors of its own for answers that break off
            raise Away(f"{self.url} broke off ({type(error).__name__})") from None


def _failure(error: urllib.error.HTTPError) -> Exception:
    with error:
        body = error.read()
    said = f"{error.code} {error.reason}"
    try:
        told = json.loads(body)
        said = f"{error.code}: {told.get('detail') or told.get('title')}"
    except (ValueError, AttributeError):
        pass
    passing = error.code in PASSING or error.code >= 500
    return Away(said) if passing else Refused(said, error.code)
