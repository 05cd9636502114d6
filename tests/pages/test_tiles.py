"""A group on the wall and in the list beside a group: every text escaped, every number as it is."""

from dataclasses import replace
from html.parser import HTMLParser

import pytest

from app.pages.cells import WORDS, Cell
from app.pages.tiles import line, tile
from app.pages.wall import Wall
from tests.pages.conftest import HOSTILE

CELL = Cell(
    group_no=3, group_id="g3", data_source=None, size=4, scored=3, rewards=(1.0, None, 0.0, 1.0),
    mean=2 / 3, std=0.577, passed=2, length=12.0, weight=1.5, share=0.25, signal="mixed", words="",
    dead=False,
)  # fmt: skip


class Read(HTMLParser):
    """The elements with their attributes, and the text between them."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(str(html))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += f"{data} "

    def of(self, tag: str) -> dict[str, str | None]:
        return next(attrs for name, attrs in self.elements if name == tag)


def test_a_tile_says_what_the_group_is() -> None:
    read = Read(tile(CELL, 0.0, 1.0, "/batches/b/groups/3"))
    assert read.of("a")["href"] == "/batches/b/groups/3" and read.of("li")["class"] == "cell"
    assert read.of("svg")["aria-label"] == "rewards of 4 rollouts, mean 0.667"
    assert (read.of("path")["d"] or "").count("M") == 3
    assert read.text.split() == ["g3", "2/3", "σ", "0.58", "25", "%"]


@pytest.mark.parametrize(
    ("signal", "dead", "classes"),
    [("fail", True, "cell dead"), ("near_zero", False, "cell near-zero"), ("mixed", False, "cell")],
)
def test_a_group_without_signal_looks_and_says_so(signal: str, dead: bool, classes: str) -> None:
    cell = replace(CELL, signal=signal, dead=dead, words=WORDS[signal], weight=None, share=None)
    read = Read(tile(cell, 0.0, 1.0, "/"))
    assert read.of("li")["class"] == classes and WORDS[signal] in read.text and "%" not in read.text
    listed = Read(line(cell, 0.0, 1.0, "/"))
    assert listed.of("a")["class"] == ("group-line dead" if dead else "group-line")
    assert WORDS[signal] in listed.text


def test_a_hostile_group_id_is_text_wherever_it_stands() -> None:
    hostile = replace(CELL, group_id=HOSTILE)
    plain = tile(CELL, 0.0, 1.0, "/"), line(CELL, 0.0, 1.0, "/")
    for html, usual in zip((tile(hostile, 0.0, 1.0, "/"), line(hostile, 0.0, 1.0, "/")), plain, strict=True):
        read = Read(html)
        assert [name for name, _ in read.elements] == [name for name, _ in Read(usual).elements]
        titles = [attrs["title"] or "" for _, attrs in read.elements if "title" in attrs]
        assert len(titles) == 1 and titles[0].startswith("</script><script>alert(1)") and "\u202e" not in html
        assert "⟨U+202E⟩" in titles[0] and "…" in read.text
    short = Read(tile(replace(CELL, group_id='"><b>\u202e'), 0.0, 1.0, "/"))
    assert [attrs.get("class") for name, attrs in short.elements if name == "b"] == ["pill"]


def test_the_list_leads_to_its_groups_and_marks_where_it_is() -> None:
    cells = tuple(replace(CELL, group_no=number) for number in range(4))
    wall = Wall(cells, 4, 0.0, 1.0, "group", (), 1, 1, 1, True)
    links = [attrs for name, attrs in Read(wall.lines("b", '?q="&x=1', 1, 0, 2)).elements if name == "a"]
    assert [link["href"] for link in links] == [f'/batches/b/groups/{number}?q="&x=1' for number in range(4)]
    assert [link.get("data-key") for link in links] == ["h", None, "l", None]
    assert [link.get("aria-current") for link in links] == [None, "page", None, None]
    tiles = [attrs["href"] for name, attrs in Read(wall.tiles("b", "e7")).elements if name == "a"]
    assert tiles == [f"/batches/b/groups/{number}?estimate=e7" for number in range(4)]
    assert 'href="/batches/b/groups/0"' in wall.tiles("b", None)
