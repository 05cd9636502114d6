"""`/findings`: what each finding means, where it was met in public, and what to do."""

import re
from dataclasses import dataclass

from app.findings.explained import Explained, explained
from app.pages.page import Page
from app.templating import Crumb


@dataclass(frozen=True, slots=True)
class Block:
    """A paragraph (one item), or a list."""

    items: tuple[str, ...]
    is_list: bool


@dataclass(frozen=True, slots=True)
class Entry:
    code: str
    title: str
    of_run: bool
    meaning: tuple[Block, ...]
    seen: str
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
        *map(plain, (said.seen, said.remedy, said.evidence)),
    )


def blocks_of(paragraph: str) -> list[Block]:
    """Lines that begin with a star are a list; what stands before them is a paragraph."""
    head, *items = re.split(r"(?m)^\* ", paragraph)
    found = [Block((flat(head),), False)] if head.strip() else []
    return found + ([Block(tuple(map(flat, items)), True)] if items else [])


def flat(text: str) -> str:
    return plain(" ".join(text.split()))


def plain(text: str) -> str:
    """Without the backquotes of the source."""
    return text.replace("`", "")


PAGE = Page("/findings", "pages/findings.html", FindingsPage, build, "runs")
