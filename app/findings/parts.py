"""The token arrays of a batch, read once from start to end."""

from collections.abc import Generator, Iterator
from contextlib import closing

import numpy as np

from app.findings.part import Part, Stored
from app.findings.view import Ints
from storage import arrays
from storage.database import AnySession

#: Small parts are looked at together, up to so many tokens: a check costs per part as well as per token.
TOGETHER = 1 << 17


def decoded(parts: Iterator[Part]) -> Iterator[Part]:
    """The same parts with their fields decoded; the largest are left as they are, for their memory."""
    for part in parts:
        if part.tokens <= 2 * TOGETHER:
            part.decode()
        yield part


def read_parts(
    session: AnySession, batch_id: str, group_no: Ints, part: Ints, together: int = TOGETHER
) -> Generator[Part]:
    """The batch's rollouts with tokens, in storage order. `group_no` and `part` `[B]` are the rollouts' own.

    Memory is bounded by the largest stored part, or `together` tokens where that is more. Raises Corrupt.
    """
    keys, first, sizes = np.unique(
        np.stack([group_no, part], axis=1), axis=0, return_index=True, return_counts=True
    )
    places = {
        (g, p): (at, n) for (g, p), at, n in zip(keys.tolist(), first.tolist(), sizes.tolist(), strict=True)
    }
    waiting: list[Stored] = []
    start = end = tokens = 0
    with closing(arrays.by_part(session, batch_id)) as stored:
        for group, number, rows in stored:
            at, count = places[group, number]
            if waiting and (at != end or tokens >= together):
                yield Part(start, waiting)
                waiting, tokens = [], 0
            start = start if waiting else at
            waiting.append(Stored.of(count, rows))
            end, tokens = at + count, tokens + int(waiting[-1].lengths.sum())
    if waiting:
        yield Part(start, waiting)
