"""Reads who was asked the same: see `app.findings.view.Prompts`."""

import hashlib
import re

import numpy as np
from sqlalchemy import select

from app.findings.view import Ints, Prompts
from storage.database import AnySession
from storage.models import Prompt, Rollout

#: A text that is not all of the prompt: two of them may look alike and be different.
MORE_THAN_TEXT = re.compile(r"\[\d+ (image|audio|video)s?\]|<(image|video|audio)>|<\|image_pad\|>")
#: What a template puts into a prompt that is none of the task: dates, times, seeds, generated ids.
_MONTH = r"(?:jan|feb|mar|apr|may|june?|july?|aug|sept?|oct|nov|dec)[a-z]*\.?"
STAMPS = re.compile(
    r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}[t ]?"
    r"|\d{1,2}[./]\d{1,2}[./]\d{2,4}"
    rf"|\b{_MONTH} \d{{1,2}}(?:st|nd|rd|th)?,? \d{{4}}|\b\d{{1,2}}(?:st|nd|rd|th)?\.? {_MONTH},? \d{{4}}"
    r"|\b(?:mon|tues?|wednes|wed|thurs?|thu|fri|satur|sat|sun)(?:day)?\b"
    r"|\d{1,2}:\d{2}(?::\d{2}(?:[.,]\d+)?)?(?: ?(?:[ap]m\b|[ap]\.m\.))?(?: ?(?:z|utc|gmt|[+-]\d{2}:?\d{2}))?"
    r"|\b1\d{9}(?:\d{3}|\.\d+)?\b"
    r"|\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b"
    r"|\b(?=[a-f]*\d)(?=\d*[a-f])[0-9a-f]{12,}\b"
    r"|\bseed\W{0,3}\d+",
    re.IGNORECASE,
)
EXAMPLES = 64  # prompts of one group that are kept to show where they differ


def read_prompts(session: AnySession, batch_id: str, index: Ints, group_no: Ints) -> Prompts:
    """Of all rollouts of a batch; `index` and `group_no` `[B]` are those of the view. A blank one is none."""
    total = index.size
    known: dict[bytes, int] = {}
    other, grows, stamped = np.zeros((3, total), dtype=bool)
    found = Prompts(np.full(total, -1), other, grows, stamped)
    shared = select(Prompt.group_no, Prompt.prompt).where(
        Prompt.batch_id == batch_id, Prompt.prompt.is_not(None)
    )
    number = {
        row.group_no: _numbered(known, row.prompt, row.group_no)
        for row in session.execute(shared, execution_options={"yield_per": 64})
        if row.prompt.strip()
    }
    found.number[:] = [number.get(group, -1) for group in group_no.tolist()]
    place = {i: at for at, i in enumerate(index.tolist())}
    own = (
        select(Rollout.index, Rollout.group_no, Rollout.prompt, Prompt.prompt.label("first"))
        .join(Prompt, (Prompt.batch_id == Rollout.batch_id) & (Prompt.group_no == Rollout.group_no))
        .where(Rollout.batch_id == batch_id, Rollout.prompt.is_not(None))
        .order_by(Rollout.group_no, Rollout.part, Rollout.slot)
    )
    for row in session.execute(own, execution_options={"yield_per": 64}):
        at = place[row.index]
        found.number[at] = _numbered(known, row.prompt, row.group_no) if row.prompt.strip() else -1
        if row.prompt.strip() and (row.first or "").strip():
            _differs(found, at, row.group_no, row.prompt, row.first)
    return found


def _numbered(known: dict[bytes, int], text: str, group_no: int) -> int:
    own = f"\0{group_no}" if MORE_THAN_TEXT.search(text) else ""
    key = hashlib.blake2b((text + own).encode(errors="surrogatepass"), digest_size=16).digest()
    return known.setdefault(key, len(known))


def _differs(found: Prompts, at: int, group_no: int, text: str, first: str) -> None:
    found.other[at] = True
    found.grows[at] = text.startswith(first) or first.startswith(text)
    if found.grows[at]:
        return
    found.stamped[at] = unstamped(text) == unstamped(first)
    if found.example is None:
        found.example = (group_no, [first])
    if found.example[0] == group_no and len(found.example[1]) < EXAMPLES and text not in found.example[1]:
        found.example[1].append(text)


def unstamped(text: str) -> str:
    """The text with one sign for every time, date, seed and generated id: equal for prompts of one task."""
    return re.sub("\0+", "\0", STAMPS.sub("\0", text))


def difference(texts: list[str]) -> tuple[int, int]:
    """The first and last character, from 0, at which the texts differ; the last of the longest."""
    shortest = min(map(len, texts))
    start = next((i for i in range(shortest) if len({text[i] for text in texts}) > 1), shortest)
    behind = 0
    shortest -= start
    while behind < shortest and len({text[len(text) - 1 - behind] for text in texts}) == 1:
        behind += 1
    return start, max(map(len, texts)) - 1 - behind
