"""What a browser loads: vendored files are what their manifest says, and pages stay within their budgets."""

import gzip
import re

from app.templating import STATIC, manifest
from scripts.vendor import WANTED, integrity
from tests.pages.conftest import Site

ASSET = re.compile(r'(?:src|href)="(/static/[^"?]+)')
IMPORT = re.compile(r'from "\./([a-z]+\.js)"')
PLAIN_BUDGET, CHART_BUDGET = 60 * 1024, 560 * 1024


def test_vendored_files_are_what_the_manifest_says() -> None:
    listed = manifest()
    assert set(listed) == set(WANTED)
    for entry in listed.values():
        data = (STATIC / "vendor" / entry["file"]).read_bytes()
        assert integrity(data) == entry["sha384"]
        assert len(data) == entry["bytes"]
        assert entry["version"] in entry["file"]
        assert (STATIC / "vendor" / entry["licence_file"]).stat().st_size > 100
    there = {path.name for path in (STATIC / "vendor").iterdir()}
    named = {entry[key] for entry in listed.values() for key in ("file", "licence_file")}
    assert there == named | {"manifest.json"}


def assets(html: str) -> set[str]:
    """Every file of static/ that a page loads, modules of modules included."""
    found = {path.removeprefix("/static/") for path in ASSET.findall(html)}
    waiting = [path for path in found if path.endswith(".js") and not path.startswith("vendor/")]
    while waiting:
        for name in IMPORT.findall((STATIC / waiting.pop()).read_text()):
            if f"js/{name}" not in found:
                found.add(f"js/{name}")
                waiting.append(f"js/{name}")
    return found


def weight(html: str) -> int:
    sizes = {path: len(gzip.compress((STATIC / path).read_bytes(), 9)) for path in assets(html)}
    return sum(sizes.values())


def test_pages_stay_within_their_budgets(site: Site) -> None:
    batch = site.batches["two-tasks"]
    for path in (
        "/",
        "/jobs",
        f"/uploads/{site.uploads['two-tasks']}",
        f"/batches/{batch}/groups/0",
        "/dashboards",
    ):
        html = site.page(path)
        assert "plotly" not in " ".join(assets(html)), path
        assert weight(html) <= PLAIN_BUDGET, (path, weight(html))
    for path in (f"/runs/{site.runs['two-tasks']}", f"/batches/{batch}", f"/batches/{batch}/rollouts/0",
                 f"/batches/{batch}/whitening"):  # fmt: skip
        html = site.page(path)
        assert "plotly" in " ".join(assets(html)), path
        assert weight(html) <= CHART_BUDGET, (path, weight(html))


def test_the_heaviest_file_is_sent_compressed(site: Site) -> None:
    file = manifest()["plotly"]["file"]
    answer = site.client.get(f"/static/vendor/{file}", headers={"Accept-Encoding": "gzip"})
    assert answer.headers["content-encoding"] == "gzip"
    assert "immutable" in answer.headers["cache-control"]
    assert int(answer.headers["content-length"]) <= 500 * 1024


def test_vendored_scripts_are_loaded_with_their_hash(site: Site) -> None:
    html = site.page(f"/batches/{site.batches['two-tasks']}")
    for script in re.findall(r"<script[^>]+/static/vendor/[^>]+>", html):
        assert 'integrity="sha384-' in script


def test_charts_never_offer_to_send_data_away() -> None:
    source = (STATIC / "js" / "charts.js").read_text()
    assert "showSendToCloud: false" in source and "displaylogo: false" in source
