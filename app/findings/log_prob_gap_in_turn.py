"""Trainer and sampler log-probabilities that agree but for some turns.

A turn is a run of trainable tokens between masked ones (tool output, user messages). d = old_log_probs −
rollout_log_probs. What an update of the policy or another kernel leaves is about as large in every turn.

* A turn by its number, from the start or from the end: over all rollouts its mean |d| is at least 0.05 and 8
  times that of the turns where it is least (with a third of the tokens), and so it is in half of the rollouts
  that have this turn, two at least; or it is 0.1 and 20 times that in a tenth of them, three at least, which
  is 8 times as often as in other turns;
* a turn of single rollouts: of 8 tokens or more, half of them with |d| of at least 0.1 and 10 times the mean
  of those other turns.

warning. Both may be legal where the turn was sampled by other weights: the numbers say that it is this turn,
not why.

Seen as: a mismatch that grows with the turns, ratios far from 1 behind a tool call, a turn that was made into
text and tokens again (verl#5229, rllm#816, prime-rl#1402).

Remedy: keep the tokens of every turn as they were sampled; compute old log-probs with the same context (chat
template, removed thinking, images); look at the token range that is named.

Evidence: `turns` (from 1; from the end they are negative), `tokens` of them, `mean_abs_difference` and
`offset` (mean of d) there, `mean_abs_difference_elsewhere`, `rollouts`, `of_rollouts`, `example` (`index`,
`turn`, `first_token`, `last_token`, from 0).
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from app.findings.finding import Finding, report
from app.findings.turns import Turns, observe
from app.findings.view import Bools, Floats, Ints, View
from app.formatting import number, plural

RATIO, GAP, HALF, SOME = 8.0, 0.05, 0.5, 0.1
STEADY, FEWEST = 1 / 3, 8
ALONE, ALONE_GAP = 10.0, 0.1


@dataclass(frozen=True, slots=True)
class Spans:
    """`Turns` as one array each, those with at least one token."""

    rollout: Ints
    number: Ints
    count: Ints
    first: Ints
    last: Ints
    tokens: Ints
    total: Floats
    signed: Floats
    median: Floats

    @property
    def mean(self) -> Floats:
        return self.total / self.tokens


def begin(view: View) -> Turns:
    return Turns()


def check(view: View) -> dict[str, Any] | None:
    state: Turns = view.facts["log_prob_gap_in_turn"]
    if not state.rollout:
        return None
    read = {name: np.concatenate(getattr(state, name)) for name in Spans.__dataclass_fields__}
    some = read["tokens"] > 0
    spans = Spans(**{name: values[some] for name, values in read.items()})
    if not spans.tokens.size:
        return None
    # Counted from the start and from the end: the count that has more of the gap in it tells.
    ways = [(place, _by_number(spans, place)) for place in (spans.number, spans.number - spans.count)]
    told = [(place, found) for place, found in ways if found is not None]
    if told:
        place, found = max(told, key=lambda way: float(spans.total[way[1][0]].sum()))
        return _report(view, spans, *found, place)
    alone, steady = _alone(spans)
    return _report(view, spans, alone, steady, None) if alone.any() else None


def _by_number(spans: Spans, place: Ints) -> tuple[Bools, float] | None:
    """Which turns are apart, all of certain numbers, and the mean |d| where it is least."""
    numbers, own = np.unique(place, return_inverse=True)
    if numbers.size < 2:
        return None
    tokens = np.bincount(own, spans.tokens).astype(np.float64)
    total = np.bincount(own, spans.total)
    mean = total / tokens
    steady = _steady(mean, tokens)
    if steady is None:
        return None
    apart = (mean >= RATIO * steady) & (mean >= GAP) & (tokens >= FEWEST)
    there = np.bincount(own)
    each = (spans.mean >= RATIO / 2 * steady) & (spans.mean >= GAP)
    so = np.bincount(own, each)
    apart &= (so >= 2) & (so >= HALF * there)
    if apart.any():
        return apart[own] & each, steady
    each = (spans.mean >= 2 * ALONE * steady) & (spans.mean >= ALONE_GAP)
    so = np.bincount(own, each)
    rest = (so.sum() - so) / np.maximum(there.sum() - there, 1)
    apart = (so >= 3) & (so >= SOME * there) & (so / there >= RATIO * rest)
    return (apart[own] & each, steady) if apart.any() else None


def _steady(mean: Floats, tokens: Floats) -> float | None:
    """The mean |d| of the turns where it is least, which have a third of the tokens together."""
    order = np.argsort(mean)
    share = np.cumsum(tokens[order])
    upto = min(int(np.searchsorted(share, STEADY * share[-1])) + 1, mean.size - 1)
    least = order[:upto]
    if share[upto - 1] < FEWEST:
        return None
    return float((mean * tokens)[least].sum() / tokens[least].sum())


def _alone(spans: Spans) -> tuple[Bools, float]:
    """Single turns with a gap on most tokens, held against all other turns."""
    wide = spans.median >= ALONE_GAP
    others = ~wide
    known = float(spans.tokens[others].sum())
    steady = float(spans.total[others].sum()) / known if known >= FEWEST else math.inf
    with np.errstate(invalid="ignore"):
        found: Bools = wide & (spans.median >= ALONE * steady)
    # A rollout that is apart in all of its turns is no matter of turns.
    near = np.bincount(spans.rollout[others], minlength=int(spans.rollout.max()) + 1) > 0
    return found & near[spans.rollout], steady


def _report(view: View, spans: Spans, apart: Bools, steady: float, place: Ints | None) -> dict[str, Any]:
    rows, first = np.unique(spans.rollout[apart]), int(np.flatnonzero(apart)[0])
    tokens = int(spans.tokens[apart].sum())
    mean, offset = (float(each[apart].sum()) / tokens for each in (spans.total, spans.signed))
    index, turn = int(view.index[spans.rollout[first]]), int(spans.number[first]) + 1
    start, end = int(spans.first[first]), int(spans.last[first])
    turns = [] if place is None else [int(k) + (k >= 0) for k in np.unique(place[apart])]
    several = int(np.unique(spans.rollout).size)
    return report(
        view,
        "warning",
        f"old_log_probs and rollout_log_probs differ by {number(mean)} a token on average "
        f"{_where(turns)} of {rows.size} of {plural(several, 'rollout')}, elsewhere by {number(steady)}: "
        f"rollout {index}, turn {turn}, tokens {start} to {end}.",
        explanation="Every other turn agrees, so it is not the policy as a whole: in these turns the trainer "
        "scores other tokens, another context or other weights than the sampler had. Importance weights and "
        "clipping act on them as if the policy had moved.",
        remedy="Keep the tokens of every turn as they were sampled, and compute old log-probs in the same "
        "context (chat template, removed thinking, images); look at the tokens that are named.",
        evidence={
            "turns": turns,
            "tokens": tokens,
            "mean_abs_difference": mean,
            "mean_abs_difference_elsewhere": steady,
            "offset": offset,
            "rollouts": rows.size,
            "of_rollouts": several,
            "example": {"index": index, "turn": turn, "first_token": start, "last_token": end},
        },
        rollouts=rows,
    )


def _where(turns: list[int]) -> str:
    """In which turns, in words."""
    if not turns:
        return "in one turn"
    if turns[0] < 0:
        return (
            "in the last turn" if turns == [-1] else f"in the turns {', '.join(map(str, turns))} from the end"
        )
    return f"in turn {turns[0]}" if len(turns) == 1 else f"in the turns {', '.join(map(str, turns))}"


FINDING = Finding(
    "log_prob_gap_in_turn", "Trainer and sampler log-probs apart in some turns", check, observe, begin
)
