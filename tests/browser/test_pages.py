"""Every page, light and wide, dark and narrow: drawn, inside its window, in the theme, without a fault."""

from collections.abc import Callable

import httpx
import pytest
from playwright.sync_api import Page

from app.pages import PAGES
from tests.browser.conftest import Site, Watch, brightness, overflow, settle

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def addresses(site: Site) -> dict[str, str]:
    """One address of every page there is."""
    with httpx.Client(base_url=site.url) as client:
        panels = [
            {"figure": "token_heatmap", "batch": site.example},
            {"figure": "whitening_scopes", "batch": site.two_tasks, "caption": "a caption"},
            {"rollout": 3, "batch": site.example},
            {"text": "a text"},
        ]
        body = {"title": "For the pages", "note": "a note", "panels": panels}
        dashboard = client.post("/api/v1/dashboards", json=body).json()["id"]
        token = client.post(f"/api/v1/dashboards/{dashboard}/shares", json={}).json()["token"]
    values = {
        "upload_id": site.upload,
        "run_id": site.run,
        "batch_id": site.example,
        "group_no": "2",
        "index": "60",
        "dashboard_id": dashboard,
        "token": token,
    }
    return {name: page.path.format(**values) for name, page in PAGES.items()}


@pytest.mark.parametrize("name", PAGES)
def test_page(visit: Callable[..., Page], addresses: dict[str, str], name: str) -> None:
    page = visit(addresses[name], viewport={"width": 1280, "height": 900}, color_scheme="light")
    assert "failed" not in settle(page)
    assert page.locator("h1").count() == 1 and brightness(page) > 200
    assert overflow(page) <= 0, "at 1280 px"
    page.set_viewport_size({"width": 400, "height": 800})
    page.emulate_media(color_scheme="dark")
    settle(page)
    assert overflow(page) <= 0, "at 400 px"
    page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    assert overflow(page) <= 0, "at 400 px, with every menu open"
    assert brightness(page) < 60


def test_what_is_not_there_is_a_page_too(visit: Callable[..., Page], watch: Watch) -> None:
    watch.allowed.append("404")
    for address in ("/batches/nothing", "/s/nothing", "/nowhere"):
        page = visit(address, viewport={"width": 400, "height": 800})
        assert page.locator("h1").count() == 1 and overflow(page) <= 0


def test_a_long_path_stays_inside_its_receipt(visit: Callable[..., Page], site: Site) -> None:
    path = "outputs/2026-11-29/a_run_with_a_name_without_any_place_to_break_it/rollouts/batch_summary.json"
    with httpx.Client(base_url=site.url, timeout=60) as client:
        asked = f"/api/v1/uploads?filename={path}&wait=60"
        refused = client.post(asked, content=b'{"mean": 1}')
    assert refused.status_code == 422
    page = visit(f"/uploads/{refused.json()['id']}", viewport={"width": 400, "height": 800})
    assert overflow(page) <= 0
