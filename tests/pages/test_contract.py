"""Every page: the template uses exactly its dataclass's fields, nothing is inline, JSON stands beside it."""

import re
from dataclasses import fields, is_dataclass
from pathlib import Path

import pytest
from jinja2 import meta, nodes

from app import pages
from app.pages import PAGES
from app.pages.page import Page
from app.templating import ErrorPage, environment
from tests.pages.conftest import Site

FRAME = {"title", "crumbs"}  # used by templates/base.html


def variables(template: str) -> set[str]:
    """What a template reads beside its own names, what it includes and what it extends."""
    env = environment()
    assert env.loader is not None
    source, _, _ = env.loader.get_source(env, template)
    tree = env.parse(source)
    found = meta.find_undeclared_variables(tree)
    for other in meta.find_referenced_templates(tree):
        # Imported macros read only what they are given; what is extended or included reads the page's fields.
        if other is not None and not re.search(rf'from "{re.escape(other)}" import', source):
            found |= variables(other)
    return found - imported(tree) - set(env.globals) - {"here", "caller"}


def imported(tree: nodes.Template) -> set[str]:
    """Names of macros, which blocks read as if from outside."""
    pairs = [pair for node in tree.find_all(nodes.FromImport) for pair in node.names]
    own = {macro.name for macro in tree.find_all(nodes.Macro)}
    return own | {pair[1] if isinstance(pair, tuple) else pair for pair in pairs}


@pytest.mark.parametrize("page", [*PAGES.values(), Page("", "pages/error.html", ErrorPage, print)])
def test_a_template_uses_exactly_the_fields_of_its_page(page: Page) -> None:
    declared = {field.name for field in fields(page.view)}
    used = variables(page.template)
    assert used - declared == set(), "not fields of the page"
    assert declared - used == set(), "fields that the template never shows"


@pytest.mark.parametrize("page", PAGES.values())
def test_a_page_is_a_frozen_dataclass(page: Page) -> None:
    assert is_dataclass(page.view)
    assert page.view.__dataclass_params__.frozen  # type: ignore[attr-defined]


def test_every_page_module_is_registered() -> None:
    folder = Path(str(pages.__file__)).parent
    defined = {path.stem for path in folder.glob("*.py") if re.search(r"^PAGE = ", path.read_text(), re.M)}
    assert defined == set(PAGES)


def test_templates_have_no_inline_script_or_style() -> None:
    for path in Path(str(environment().loader.searchpath[0])).rglob("*.html"):  # type: ignore[union-attr]
        if path.name == "export.html":
            continue  # one file that stands alone, under a policy of its own
        text = path.read_text()
        assert not re.search(r"<style|\sstyle=|\son[a-z]+=", text), path
        for tag in re.findall(r"<script[^>]*>", text):
            assert "src=" in tag or 'type="application/json"' in tag, (path, tag)


def addresses(site: Site, name: str) -> list[str]:
    batch = site.batches[name]
    return [
        "/",
        "/jobs",
        "/findings",
        f"/uploads/{site.uploads[name]}",
        f"/runs/{site.runs[name]}",
        f"/batches/{batch}",
        f"/batches/{batch}/groups/0",
        f"/batches/{batch}/groups/0?view=side",
        f"/batches/{batch}/rollouts/1",
        f"/batches/{batch}/whitening",
        f"/batches/{batch}/verify",
        f"/batches/{batch}/compare",
        f"/batches/{batch}/loss",
        f"/batches/{batch}/loss?mode=dapo&scale=64&clip_low=&clip_high=0.28",
        "/dashboards",
    ]


@pytest.mark.parametrize("name", ["two-tasks", "hostile", "plain"])
def test_every_page_stands_and_has_its_json(site: Site, name: str) -> None:
    for address in addresses(site, name):
        html = site.page(address)
        beside = re.search(r'<link rel="alternate" type="application/json" href="([^"]+)"', html)
        assert beside is not None, address
        answer = site.client.get(beside[1].replace("&amp;", "&"))
        assert answer.status_code == 200 and answer.headers["content-type"] == "application/json"
        assert isinstance(answer.json(), dict)
        back = re.match(r'<([^>]+)>; rel="alternate"; type="text/html"', answer.headers["link"])
        assert back is not None and back[1] == address
        assert html.count("<h1") == 1 and 'id="main"' in html and 'class="skip"' in html


def test_hostile_text_stays_text_on_every_page(site: Site) -> None:
    for address in addresses(site, "hostile"):
        html = site.page(address)
        assert "<script>alert" not in html and "<img src=x" not in html, address
        seen = re.sub(r'\svalue="[^"]*"', "", html)  # what a form sends back is never drawn
        assert "\u202e" not in seen and "\u200b" not in seen, address


def test_data_islands_cannot_end_their_element() -> None:
    text = environment().from_string("{{ value|island }}").render(value={"a": "</script><!--&\u2028"})
    assert text == '{"a":"\\u003c/script\\u003e\\u003c!--\\u0026\\u2028"}'


def test_tables_have_captions_and_pictures_have_labels(site: Site) -> None:
    for address in addresses(site, "two-tasks"):
        html = site.page(address)
        assert html.count("<table") == html.count("<caption"), address
        for tag in re.findall(r"<svg[^>]*>", html):
            assert "aria-label=" in tag or "aria-hidden=" in tag, (address, tag)
        for tag in re.findall(r"<th[ >][^>]*>", html):
            assert "scope=" in tag, (address, tag)
