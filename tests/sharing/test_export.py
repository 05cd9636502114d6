"""The exported file: self-contained, allowed by its own policy, and safe with hostile text."""

import base64
import hashlib
import json
import re
from html.parser import HTMLParser

import pytest

from app.export import file_name
from tests.sharing.conftest import MARK, World


class Elements(HTMLParser):
    """What a browser would see: each start tag, and the raw content of scripts and styles."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.raw: list[tuple[str, dict[str, str | None], str]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if self.cdata_elem is not None:
            self.raw.append((*self.tags[-1], data))


def exported(world: World, *panels: dict[str, object], query: str = "") -> tuple[str, Elements]:
    dashboard = world.dashboard(*panels, title=f"{MARK} & <i>co</i>")
    answer = world.client.get(f"/api/v1/dashboards/{dashboard}/export.html{query}")
    assert answer.status_code == 200, answer.text
    elements = Elements()
    elements.feed(answer.text)
    return answer.text, elements


def test_it_is_one_file_with_a_plain_name(world: World) -> None:
    dashboard = world.dashboard({"text": "x"}, title="Schritt 3: größer / kleiner?")
    answer = world.client.get(f"/api/v1/dashboards/{dashboard}/export.html")
    assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
    assert answer.headers["Content-Disposition"] == 'attachment; filename="Schritt-3-groer-kleiner.html"'


@pytest.mark.parametrize("title", ["", "///", '"; x="', "..", "日本語"])
def test_file_names_are_plain(title: str) -> None:
    assert re.fullmatch(r"[A-Za-z0-9-]+\.html", file_name(title))


def test_nothing_is_fetched(world: World) -> None:
    _, elements = exported(world, *world.panels())
    for tag, attributes in elements.tags:
        assert "src" not in attributes, (tag, attributes)
        assert tag not in ("iframe", "object", "embed", "base", "form", "img", "a"), (tag, attributes)
        assert tag != "link" or attributes["href"] == "data:,"
        assert not any(name.startswith("on") or name == "style" for name in attributes), (tag, attributes)


def test_the_policy_allows_exactly_what_is_inside(world: World) -> None:
    _, elements = exported(world, *world.panels())
    (policy,) = [tag["content"] or "" for name, tag in elements.tags if tag.get("http-equiv")]
    allowed = set(re.findall(r"'sha256-[^']+'", policy))
    run = [
        text
        for tag, attributes, text in elements.raw
        if tag == "style" or attributes.get("type") in (None, "module")
    ]
    digests = {base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in run}
    assert allowed == {f"'sha256-{digest}'" for digest in digests} and len(run) == 5
    assert "default-src 'none'" in policy and "unsafe" not in policy and "connect-src" not in policy


def test_hostile_text_stays_text(world: World) -> None:
    text, elements = exported(world, *world.panels())
    data = [
        content for _, attributes, content in elements.raw if attributes.get("type") == "application/json"
    ]
    assert len(data) == 2 and all(json.loads(content)["data"] for content in data)
    assert not any(character in "".join(data) for character in "<>&\u2028\u2029")
    assert "\u202e" not in text and "<img" not in text and "<script>alert" not in text
    assert text.count("&lt;img src=x onerror=alert(2)&gt;") >= 4


def test_it_says_where_its_numbers_come_from(world: World) -> None:
    text, _ = exported(world, *world.panels())
    assert "run run-of-ours · step 3 · train · grpo/verl (recomputed)" in text
    assert re.search(r'exported <time datetime="\d{4}-\d\d-\d\dT', text)
    assert world.batch not in text and world.estimate not in text


def test_without_figures_it_is_small(world: World) -> None:
    text, _ = exported(world, {"text": "x"}, {"rollout": 1, "batch": world.batch})
    assert len(text) < 100_000 and "Plotly.react" not in text


def test_it_can_leave_text_out(world: World) -> None:
    dashboard = world.dashboard(*world.panels())
    answer = world.client.get(f"/api/v1/dashboards/{dashboard}/export.html?hide_text=true")
    assert answer.status_code == 200 and MARK not in answer.text and "text hidden" in answer.text
