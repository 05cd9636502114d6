"""Who may ask. The table of requests a browser really sends, and of those that an attacker's page makes it
send."""

import pytest
from fastapi import Request

from app.security.hosts import host_allowed, refusal, same_origin
from app.settings import Settings

LOCAL = Settings(host="127.0.0.1", port=8000)


def request(method: str = "GET", path: str = "/", query: bytes = b"", **headers: str) -> Request:
    sent = {"host": "127.0.0.1:8000"} | {name.replace("_", "-"): value for name, value in headers.items()}
    return Request(
        {
            "type": "http",
            "method": method,
            "path": path,
            "query_string": query,
            "server": ("127.0.0.1", 8000),
            "scheme": "http",
            "headers": [(name.encode(), value.encode()) for name, value in sent.items()],
        }
    )


@pytest.mark.parametrize(
    "host", ["127.0.0.1:8000", "localhost", "LOCALHOST:8000", "[::1]:8000", "127.0.0.1", "localhost:9999"]
)
def test_loopback_names_are_answered(host: str) -> None:
    assert host_allowed(host, LOCAL)


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "127.0.0.1.evil.example",
        "localhost.evil.example",
        "evil.example:8000",
        "192.168.1.7:8000",
        "",
        "localhost:port",
        "user@localhost",
        "localhost/path",
        "localhost?x",
        "[::1",
    ],
)
def test_other_names_are_not(host: str) -> None:
    assert not host_allowed(host, LOCAL)


def test_configured_names_are_answered() -> None:
    settings = Settings(host="10.0.0.5", allowed_hosts=("vantage.example.org", "*.team.example.org"))
    assert host_allowed("vantage.example.org:443", settings)
    assert host_allowed("a.team.example.org", settings)
    assert host_allowed("10.0.0.5:8000", settings)
    assert not host_allowed("team.example.org", settings)
    assert not host_allowed("evilteam.example.org", settings)


def test_bound_to_every_address_literal_addresses_are_answered_and_names_are_not() -> None:
    settings = Settings(host="0.0.0.0", insecure=True)
    assert host_allowed("192.168.1.7:8000", settings)
    assert host_allowed("[fd00::1]:8000", settings)
    assert not host_allowed("evil.example:8000", settings)


@pytest.mark.parametrize(
    "sent",
    [
        request(),
        request("POST"),  # curl
        request("POST", origin="http://127.0.0.1:8000", sec_fetch_site="same-origin"),
        request("GET", sec_fetch_site="none", sec_fetch_mode="navigate", sec_fetch_dest="document"),
        # A link to a shared page in a chat.
        request("GET", sec_fetch_site="cross-site", sec_fetch_mode="navigate", sec_fetch_dest="document"),
    ],
)
def test_own_pages_and_programs_are_answered(sent: Request) -> None:
    assert refusal(sent, LOCAL) is None


@pytest.mark.parametrize(
    "sent",
    [
        request("POST", origin="http://evil.example"),
        request("POST", origin="null"),
        request("POST", origin="http://127.0.0.1:3000"),
        request("POST", origin="file://"),
        request("POST", sec_fetch_site="cross-site"),
        request("POST", sec_fetch_site="same-site"),
        request("DELETE", origin="http://evil.example"),
        request("GET", origin="http://evil.example"),
        request("GET", sec_fetch_site="cross-site", sec_fetch_mode="no-cors", sec_fetch_dest="script"),
        request("GET", sec_fetch_site="same-site", sec_fetch_mode="cors", sec_fetch_dest="empty"),
        request("GET", sec_fetch_site="cross-site", sec_fetch_mode="navigate", sec_fetch_dest="iframe"),
        # A form on another site that posts here is a navigation, too.
        request("POST", sec_fetch_site="cross-site", sec_fetch_mode="navigate", sec_fetch_dest="document"),
    ],
)
def test_pages_elsewhere_are_refused(sent: Request) -> None:
    error = refusal(sent, LOCAL)
    assert error is not None and error.status == 403
    assert "another origin" in error.detail


def test_a_rebound_name_is_refused_with_the_setting_that_would_allow_it() -> None:
    error = refusal(request(host="rebind.example:8000"), LOCAL)
    assert error is not None and error.status == 403
    assert "VANTAGE_ALLOWED_HOSTS" in error.detail
    assert "rebind" not in error.detail


def test_nul_characters_are_refused() -> None:
    for sent in (request(path="/api/v1/runs/a\x00b"), request(query=b"cursor=%00")):
        error = refusal(sent, LOCAL)
        assert error is not None and error.status == 400


def test_a_second_host_header_is_refused() -> None:
    sent = request(host="127.0.0.1:8000")
    sent.scope["headers"].append((b"host", b"evil.example"))
    error = refusal(sent, LOCAL)
    assert error is not None and error.status == 400 and "several Host headers" in error.detail


@pytest.mark.parametrize(
    ("origin", "host", "same"),
    [
        ("http://localhost:8000", "localhost:8000", True),
        ("https://vantage.example.org", "vantage.example.org", True),
        ("https://vantage.example.org", "vantage.example.org:443", True),
        ("http://localhost", "localhost:8000", False),
        ("http://127.0.0.1:8000", "localhost:8000", False),
        ("http://[::1]:8000", "[::1]:8000", True),
        ("http://localhost:port", "localhost", False),
        ("http://x@localhost:8000", "localhost:8000", False),
    ],
)
def test_same_origin(origin: str, host: str, same: bool) -> None:
    assert same_origin(origin, host) is same
