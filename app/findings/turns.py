"""The turns of rollouts: runs of trainable tokens between masked ones, and how far two log-probs are apart
in each."""

from dataclasses import dataclass, field

import numpy as np

from app.findings.part import Part
from app.findings.view import Floats, Ints

#: Spans of a part whose median is taken, and the fewest tokens that make one worth it.
MEDIANS, LONG = 4096, 8
LARGE = 0.1


@dataclass(slots=True)
class Turns:
    """One entry a turn, of the rollouts that have several: `[T]` each once all parts were seen.

    rollout  place in the view; `number` of the turn from 0, of `count` in its rollout
    first, last   positions of its first and last token
    tokens   with both log-probs; `total` Σ|d| and `signed` Σd over them, d = old − sampler
    median   of |d|; NaN where nobody needs it
    """

    rollout: list[Ints] = field(default_factory=list)
    number: list[Ints] = field(default_factory=list)
    count: list[Ints] = field(default_factory=list)
    first: list[Ints] = field(default_factory=list)
    last: list[Ints] = field(default_factory=list)
    tokens: list[Ints] = field(default_factory=list)
    total: list[Floats] = field(default_factory=list)
    signed: list[Floats] = field(default_factory=list)
    median: list[Floats] = field(default_factory=list)


def observe(part: Part, state: Turns) -> None:
    old, sampler = part.floats("old_log_probs"), part.floats("rollout_log_probs")
    if old is None or sampler is None or part.mask.all():
        return
    live = part.mask
    begins = live.copy()
    begins[1:] &= ~live[:-1] | (part.owner[1:] != part.owner[:-1])
    starts = np.flatnonzero(begins)
    owner = part.owner[starts]
    turns = np.bincount(owner, minlength=part.rollouts)
    kept = np.flatnonzero(turns[owner] > 1)
    if not kept.size:
        return
    both = live & np.isfinite(old) & np.isfinite(sampler)
    gap = np.where(both, np.subtract(old, sampler, where=both, out=np.zeros_like(old)), 0.0)
    width = np.add.reduceat(live.astype(np.int64), starts)[kept]  # masked tokens behind it do not count
    tokens = np.add.reduceat(both.astype(np.int64), starts)[kept]
    total = np.add.reduceat(np.abs(gap), starts)[kept]
    number = np.arange(starts.size) - np.repeat(
        np.searchsorted(owner, owner[_heads(owner)]), turns[turns > 0]
    )
    first = part.position[starts[kept]]
    state.rollout.append(owner[kept] + part.rows.start)
    state.number.append(number[kept])
    state.count.append(turns[owner[kept]])
    state.first.append(first)
    state.last.append(first + width - 1)
    state.tokens.append(tokens)
    state.total.append(total)
    state.signed.append(np.add.reduceat(gap, starts)[kept])
    state.median.append(_medians(np.abs(gap), starts[kept], width, tokens, total))


def _heads(owner: Ints) -> Ints:
    """Where a rollout's first turn stands."""
    found: Ints = np.flatnonzero(np.append(True, owner[1:] != owner[:-1]))
    return found


def _medians(size: Floats, starts: Ints, width: Ints, tokens: Ints, total: Floats) -> Floats:
    found = np.full(starts.size, np.nan)
    wanted = np.flatnonzero((tokens >= LONG) & (total >= LARGE * tokens))[:MEDIANS]
    for i in wanted.tolist():
        found[i] = np.median(size[starts[i] : starts[i] + width[i]])
    return found
