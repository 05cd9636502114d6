"""The documentation names everything that can be named, and says the same as the code."""

import re
from pathlib import Path

import pytest

from docs import generate

DOCS = Path(generate.__file__).parent
ROOT = DOCS.parent


@pytest.mark.parametrize("name", sorted(generate.pages()))
def test_reference_page_is_current(name: str) -> None:
    written = (generate.REFERENCE / name).read_text()
    assert written == generate.pages()[name], "run python docs/generate.py"


def test_every_link_between_pages_leads_somewhere() -> None:
    for page in [*ROOT.glob("*.md"), *DOCS.rglob("*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_every_decision_is_listed() -> None:
    listed = (DOCS / "adr" / "README.md").read_text()
    for page in (DOCS / "adr").glob("0*.md"):
        assert page.name in listed
