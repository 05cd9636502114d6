"""`/findings`: what each finding means, where it was met in public, and what to do."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from app.findings.explained import REFERENCE, Explained, explained, link_of
from app.pages.page import Page
from app.templating import Crumb


@dataclass(frozen=True, slots=True)
class Block:
    """A paragraph (one item), or a list."""

    items: tuple[str, ...]
    is_list: bool


@dataclass(frozen=True, slots=True)
class Piece:
    """Some text, and where it leads: a public thread."""

    text: str
    href: str | None


@dataclass(frozen=True, slots=True)
class Entry:
    code: str
    title: str
    of_run: bool
    meaning: tuple[Block, ...]
    seen: tuple[Piece, ...]
    remedy: str
    evidence: str


@dataclass(frozen=True, slots=True)
class FindingsPage:
    title: str
    crumbs: tuple[Crumb, ...]
    entries: tuple[Entry, ...]


def build() -> FindingsPage:
    return FindingsPage(
        title="What the findings mean",
        crumbs=(Crumb("Runs", "/"), Crumb("Findings")),
        entries=tuple(map(entry_of, explained())),
    )


def entry_of(said: Explained) -> Entry:
    blocks = [block for paragraph in said.meaning for block in blocks_of(paragraph)]
    return Entry(
        said.code,
        said.title,
        said.of_run,
        tuple(blocks),
        tuple(pieces_of(plain(said.seen))),
        plain(said.remedy),
        plain(said.evidence),
    )


def blocks_of(paragraph: str) -> list[Block]:
    """Lines that begin with a star are a list; what stands before them is a paragraph."""
    head, *items = re.split(r"(?m)^\* ", paragraph)
    found = [Block((flat(head),), False)] if head.strip() else []
    return found + ([Block(tuple(map(flat, items)), True)] if items else [])


def pieces_of(text: str) -> Iterator[Piece]:
    """The text with each cited thread as a piece of its own."""
    end = 0
    for found in REFERENCE.finditer(text):
        href = link_of(found[1], found[2])
        if href is not None:
            yield Piece(text[end : found.start()], None)
            yield Piece(found[0], href)
            end = found.end()
    yield Piece(text[end:], None)


def flat(text: str) -> str:
    return plain(" ".join(text.split()))


def plain(text: str) -> str:
    """Without the backquotes of the source."""
    return text.replace("`", "")


PAGE = Page("/findings", "pages/findings.html", FindingsPage, build, "runs")
