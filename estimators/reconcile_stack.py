"""The same batch with many mistakes, as one long batch: a formula runs over it once for all of them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from estimators.batch import ROLLOUT_FIELDS, TOKEN_FIELDS, Batch
from estimators.masked import segment_sums
from estimators.mistakes.mistake import Input
from estimators.reconcile_lines import Targets, near_lines, targets
from estimators.reconcile_recorded import View
from estimators.reconcile_sample import Sample, lines
from estimators.reconciliation import Recorded
from estimators.rewards import TokenRewardParams

#: Tokens of one long batch.
LONG = 1 << 17


#: Groups that hold no lines, of groups that can tell; None: that says nothing. NEVER: no chance at all.
Tally = tuple[int, int] | None
NEVER: Tally = (1, 0)


@dataclass(slots=True)
class Ahead:
    """longs  long batches, what is recorded once for each part, and the ids of the mistakes of the parts
    long   the ids of all mistakes that are in one
    hopes  of each formula, by key, the ids of those that come near
    lined  of each formula and scopes, whether the recorded means lie on a line of the raw ones
    parts  by the ids of a mistake and of rollouts, which are kept alive: those rollouts after that mistake
    tallies  of each formula and scopes, what its groups say of the recorded numbers
    scopes  of each scopes, what lines inside the largest of them have to pass near
    many   whole groups spread over the batch, once they are chosen; `grouped`: as each mistake groups them
    """

    longs: list[tuple[Batch, View, list[int]]] = field(default_factory=list)
    long: set[int] = field(default_factory=set)
    hopes: dict[str, set[int]] = field(default_factory=dict)
    lined: dict[tuple[str, int], tuple[Tensor | None, bool]] = field(default_factory=dict)
    tallies: dict[tuple[str, int], tuple[Tensor | None, Tally]] = field(default_factory=dict)
    scopes: dict[int, tuple[Tensor, Targets | None]] = field(default_factory=dict)
    parts: dict[tuple[int, int], tuple[Input, Sample, Batch | None]] = field(default_factory=dict)
    many: list[Sample | None] = field(default_factory=list)
    grouped: dict[int, tuple[Input, Sample | None]] = field(default_factory=dict)


def stacked(batches: Sequence[Batch]) -> Batch:
    """One batch end to end: each keeps its groups, its rollouts and its place in the file to itself."""
    first, count = batches[0], batches[0].rollouts
    tokens = sum(each.tokens for each in batches)
    starts = [0, *torch.tensor([each.tokens for each in batches]).cumsum(0).tolist()]
    offsets = [each.offsets[1:] + start for each, start in zip(batches, starts, strict=False)]
    changed: dict[str, Any] = {
        "offsets": torch.cat([first.offsets[:1], *offsets]),
        "group": torch.cat([each.group + place * 2 * count for place, each in enumerate(batches)]),
        "components": {
            name: torch.cat([each.components[name] for each in batches]) for name in first.components
        },
    }
    apart = ("index", "rollout_id", "rank", "micro_batch")
    for name in (*TOKEN_FIELDS, *ROLLOUT_FIELDS, "response_mask", "scores"):
        if getattr(first, name) is None:
            continue
        step = 1 + int(getattr(first, name).max()) if name in apart and tokens else 0
        parts = [getattr(each, name) + place * step if step else getattr(each, name)
                 for place, each in enumerate(batches)]  # fmt: skip
        changed[name] = torch.cat(parts)
    found = replace(first, **changed)
    return replace(found, group=torch.unique(found.group, return_inverse=True)[1])


def chunks(batches: Sequence[Batch]) -> Iterator[slice]:
    """Spans of batches that are worked on together."""
    size = max(1, LONG // max(1, batches[0].tokens)) if batches else 1
    for first in range(0, len(batches), size):
        yield slice(first, min(first + size, len(batches)))


def repeated_view(view: View, batch: Batch, times: int) -> View:
    """What is recorded, once for each part of the long batch, over the mask of the batch as it is."""
    whole = replace(batch, response_mask=view.batch.response_mask.repeat(times))
    recorded = Recorded(view.values.repeat(times), view.recorded.per_token)
    return View(whole, recorded, view.precision, view.scale)


def hopeful(raw: Tensor, per_token: bool, one_line: bool, long: View, view: View, times: int) -> list[bool]:
    """Of each part, whether its raw advantages can be those recorded: rollout by rollout a line of them, and,
    where `one_line`, the means of the rollouts on one line for all."""
    kept = [True] * times
    if per_token and view.recorded.per_token:
        says = lines(raw, long).view(times, -1)
        known = ~torch.isnan(says)
        share = says.nan_to_num(0.0).sum(dim=1) / known.sum(dim=1).clamp(min=1)
        kept = ((share >= 0.9) | (known.sum(dim=1) == 0)).tolist()
    if not one_line or not any(kept):
        return kept
    means = _means(raw, long) if per_token else raw
    near = near_lines(means.view(times, -1), targets(view))
    return [one and other for one, other in zip(kept, near.tolist(), strict=True)]


def _means(raw: Tensor, long: View) -> Tensor:
    """Mean of each rollout's raw advantages over the tokens that are compared."""
    taken = long.taken if long.recorded.per_token else long.batch.response_mask
    count = segment_sums(taken.double(), long.batch.offsets).clamp(min=1)
    return segment_sums(torch.where(taken, raw, 0.0), long.batch.offsets) / count


def apart(batch: Batch, params: Any) -> bool:
    """Whether nothing that these parameters look at reaches from one part of the long batch to the next, of
    what a batch need not have."""
    if any(getattr(params, name, None) is not None for name in ("group_size", "overlong_tokens")):
        return False
    if getattr(params, "bootstrap", "none") == "no_eos" and batch.truncated is None:
        return False
    if batch.token_level_rewards is None and isinstance(params, TokenRewardParams):
        placed = params.score_location == "last_response" or params.mask_no_eos_with_zero
        return not placed and params.reward_norm is None
    return True
