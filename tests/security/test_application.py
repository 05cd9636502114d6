"""The checks and headers on the whole application: every kind of answer, and no door beside them."""

from collections.abc import Iterator

import pytest
from fastapi.routing import APIRoute
from starlette.testclient import TestClient

from app.main import create_app
from app.pages import PAGES
from app.security.headers import CONTENT_SECURITY_POLICY
from app.settings import Settings

#: One address of each kind: pages, data, API, errors of each, files, service.
ADDRESSES = [
    "/",
    "/index.json",
    "/jobs",
    "/dashboards",
    "/nothing",
    "/api/v1/runs",
    "/api/v1/runs/nothing",
    "/api/v1/openapi.json",
    "/s/unknown",
    "/s/unknown.json",
    "/static/js/charts.js",
    "/static/nothing.js",
    "/healthz",
    "/metrics",
    "/favicon.ico",
]


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    application = create_app(Settings(data_dir=tmp_path_factory.mktemp("security")))
    with TestClient(application, base_url="http://127.0.0.1:8000", headers={"Accept": "text/html"}) as found:
        yield found


@pytest.mark.parametrize("address", ADDRESSES)
def test_every_answer_has_the_headers(client: TestClient, address: str) -> None:
    answer = client.get(address)
    assert answer.status_code < 500
    headers = answer.headers
    assert headers["content-security-policy"] == CONTENT_SECURITY_POLICY
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["x-frame-options"] == "DENY"
    assert headers["cross-origin-resource-policy"] == "same-origin"
    assert headers["referrer-policy"] in ("same-origin", "no-referrer")
    assert "x-request-id" in headers and "cache-control" in headers
    assert not [name for name in headers if name.startswith("access-control")]
    assert "server" not in headers


def test_the_policy_allows_nothing_inline_and_no_other_origin() -> None:
    directives = dict(part.split(" ", 1) for part in CONTENT_SECURITY_POLICY.split("; "))
    assert directives["default-src"] == directives["base-uri"] == directives["frame-ancestors"] == "'none'"
    assert "unsafe" not in CONTENT_SECURITY_POLICY and "http" not in CONTENT_SECURITY_POLICY


@pytest.mark.parametrize("address", ["/s/unknown", "/s/unknown.json"])
def test_shares_are_kept_from_caches_crawlers_and_referrers(client: TestClient, address: str) -> None:
    headers = client.get(address).headers
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["x-robots-tag"] == "noindex"
    assert headers["cache-control"] == "no-store"


@pytest.mark.parametrize("address", ADDRESSES)
def test_a_rebound_name_gets_nothing(client: TestClient, address: str) -> None:
    answer = client.get(address, headers={"Host": "rebound.example:8000"})
    assert answer.status_code == 403
    assert "VANTAGE_ALLOWED_HOSTS" in answer.text
    assert answer.headers["content-security-policy"] == CONTENT_SECURITY_POLICY


@pytest.mark.parametrize(
    ("method", "address"),
    [
        ("POST", "/api/v1/uploads"),
        ("POST", "/uploads"),
        ("POST", "/api/v1/dashboards"),
        ("POST", "/api/v1/batches/x/estimates"),
        ("DELETE", "/api/v1/runs/x"),
        ("GET", "/api/v1/runs"),
        ("GET", "/index.json"),
    ],
)
@pytest.mark.parametrize(
    "sent",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:9000"},
        {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"},
    ],
)
def test_pages_elsewhere_can_neither_read_nor_write(
    client: TestClient, method: str, address: str, sent: dict[str, str]
) -> None:
    answer = client.request(method, address, headers=sent)
    assert answer.status_code == 403
    assert "another origin" in answer.text


def test_a_preflight_is_not_granted(client: TestClient) -> None:
    asked = {"Origin": "http://evil.example", "Access-Control-Request-Method": "POST"}
    answer = client.options("/api/v1/uploads", headers=asked)
    assert answer.status_code == 403 and "access-control-allow-origin" not in answer.headers


def test_own_pages_may_write(client: TestClient) -> None:
    own = {"Origin": "http://127.0.0.1:8000", "Sec-Fetch-Site": "same-origin"}
    assert client.post("/api/v1/dashboards", json={"title": "ours"}, headers=own).status_code == 201


def test_assets_may_be_kept_for_ever_only_under_a_name_that_changes(client: TestClient) -> None:
    plain = client.get("/static/js/charts.js")
    assert plain.headers["cache-control"] == "no-cache"
    named = client.get("/static/js/charts.js?v=0123456789")
    assert "immutable" in named.headers["cache-control"]
    known = {"If-None-Match": plain.headers["etag"]}
    assert client.get("/static/js/charts.js", headers=known).status_code == 304
    assert client.get("/static/nothing.js?v=1").status_code == 404
    assert "immutable" not in client.get("/static/nothing.js?v=1").headers["cache-control"]


@pytest.mark.parametrize(
    "address",
    [
        "/static/../app/main.py",
        "/static/%2e%2e/app/main.py",
        "/static//etc/passwd",
        "/static/%2e%2e%2fpyproject.toml",
    ],
)
def test_no_file_beside_the_assets_is_served(client: TestClient, address: str) -> None:
    assert client.get(address).status_code == 404


@pytest.mark.parametrize(
    "address", ["/api/v1/runs/a%00b", "/api/v1/batches?cursor=%00", "/%00", "/static/%00"]
)
def test_nul_characters_are_refused(client: TestClient, address: str) -> None:
    assert client.get(address).status_code == 400


HOSTILE = [
    "..", "%2e%2e%2f%2e%2e", "';--\"", "%ff%fe", "a" * 300, "-1", "1e309", "<script>", "%25%32%65", "٣",
]  # fmt: skip


@pytest.mark.parametrize("text", HOSTILE)
def test_no_address_made_of_nonsense_breaks_the_server(client: TestClient, text: str) -> None:
    """Every path and every query parameter of every route, the pages' too."""
    every = [route for router in client.app.routes for route in routes_of(router)]  # type: ignore[attr-defined]
    left_out = ("/readyz", "/api/v1/events")  # rightly 503, as there is no worker; a stream without an end
    streams = "/events" if text == ".." else "/readyz"  # a client makes one address of …/x/../events
    routes = [route for route in every if route.path not in left_out and not route.path.endswith(streams)]
    assert len(routes) > 30
    for route in routes:
        address = route.path
        for parameter in ("{group_id:path}", "{run:path}"):
            address = address.replace(parameter, text)
        for name in route.param_convertors:
            address = address.replace(f"{{{name}}}", text)
        for method in sorted((route.methods or set()) & {"GET", "DELETE"}):
            query = "&".join(
                f"{name}={text}" for name in ("limit", "cursor", "sort", "estimate", "wait", "q")
            )
            answer = client.request(method, f"{address}?{query}")
            assert answer.status_code < 500, (method, address, answer.text)
            assert "Traceback" not in answer.text


def routes_of(route: object) -> list[APIRoute]:
    """The routes below one entry of the application."""
    if isinstance(route, APIRoute):
        return [route]
    inside = getattr(getattr(route, "original_router", None), "routes", [])
    return [found for each in inside for found in routes_of(each)]


def test_every_page_is_beside_its_data(client: TestClient) -> None:
    for page in PAGES.values():
        if "{" not in page.path:
            html = client.get(page.path)
            data = client.get("/index.json" if page.path == "/" else f"{page.path}.json")
            assert (html.status_code, data.status_code) == (200, 200)
            assert 'rel="alternate"' in html.headers["link"] and 'rel="alternate"' in data.headers["link"]


def test_the_icon_is_where_browsers_look_for_it(client: TestClient) -> None:
    assert client.get("/favicon.ico").headers["content-type"] == "image/svg+xml"
