"""A scope over which advantages are whitened holds too little to have a spread.

* critical: the whole batch has fewer than two trainable tokens (and the file has a mask): a mean is all
  there is, a variance with ddof 1 divides by 0, and some trainers stop with an error.
* warning: a rank has fewer than two trainable tokens, or all its trainable tokens have one and the same
  recorded advantage, because it holds one rollout, while the batch has more than one value: whitened on the
  rank, the advantages become 0.

Micro-batches of one rollout are usual and not named: trainers do not whiten over them.

Seen as: NaN advantages, or all zeros, with small batches on many GPUs; a scale that changes with the number
of GPUs (miles#3229, OpenRLHF#830, OpenRLHF#924, reskill#12, slime#2235, verl#1527).

Remedy: whiten over all ranks, where these have a spread together, with a larger batch, or not at all.

Evidence: `scope` ("batch" | "rank"), `scopes` and `too_small`, `tokens` and `rollouts` of the smallest,
`tried` (all ranks: `helps`, their `tokens` and `rollouts`).
"""

from typing import Any

import numpy as np

from app.findings import remedies
from app.findings.finding import Finding, report
from app.findings.recorded import one_per_rollout
from app.findings.remedies import Tried
from app.findings.view import View
from app.formatting import plural


def check(view: View) -> dict[str, Any] | None:
    known = view.valid >= 0
    if not known.any() or not known.all():
        return None
    total = int(view.valid.sum())
    if total < 2:
        return _report(
            view, "batch", 1, np.arange(view.rollouts), np.array([total]), np.array([view.rollouts])
        )
    ranked = view.columns.known.get("rank")
    if ranked is None or ranked.size != view.rollouts or not ranked.all():
        return None
    ranks, member = np.unique(view.columns.rank, return_inverse=True)
    if ranks.size < 2:
        return None
    member = member.reshape(-1)
    live = view.valid > 0
    tokens = np.bincount(member, view.valid, minlength=ranks.size).astype(np.int64)
    rollouts = np.bincount(member[live], minlength=ranks.size)
    alone = (
        live & one_per_rollout(view) & (rollouts[member] == 1) & (np.unique(view.advantage[live]).size > 1)
    )
    small = (tokens < 2) | (np.bincount(member[alone], minlength=ranks.size) > 0)
    if not small.any():
        return None
    return _report(view, "rank", ranks.size, np.flatnonzero(small[member]), tokens[small], rollouts[small])


def _report(view: View, scope: str, scopes: int, found: Any, tokens: Any, rollouts: Any) -> dict[str, Any]:
    smallest = int(np.argmin(tokens))
    batch = scope == "batch"
    tried = [] if batch else [_together(view)]
    holds = (
        f"{plural(int(tokens[smallest]), 'trainable token')} of {plural(int(rollouts[smallest]), 'rollout')}"
    )
    return report(
        view,
        "critical" if batch else "warning",
        f"The batch has {plural(int(tokens[0]), 'trainable token')}: there is nothing to whiten over."
        if batch
        else f"{tokens.size} of {scopes} ranks {'holds' if tokens.size == 1 else 'hold'} too little to "
        f"whiten over (the smallest {holds}): whitened on the rank, the advantages there become 0 or NaN.",
        explanation="Whitening subtracts the mean of its scope and divides by the spread. One token, or one "
        "rollout whose tokens all have the same advantage, has no spread: what is left is 0, or a division "
        "by 0.",
        remedy=remedies.advice(
            tried,
            "Whiten over a larger batch, or not at all where advantages are normalised in groups already.",
        ),
        evidence={
            "scope": scope,
            "scopes": scopes,
            "too_small": int(tokens.size),
            "tokens": int(tokens[smallest]),
            "rollouts": int(rollouts[smallest]),
            "tried": remedies.numbers_of(tried),
        },
        groups=np.unique(view.group[found]) if view.grouped and found.size else (),
        rollouts=found,
    )


def _together(view: View) -> Tried:
    """Whitening over all ranks: how much there is, and whether it has a spread."""
    live = view.valid > 0
    whole, rollouts = int(view.valid[live].sum()), int(live.sum())
    given = view.advantage[live & np.isfinite(view.advantage)]
    flat = bool(given.size) and np.unique(given).size < 2
    sentence = (
        f"Whiten over all ranks together ({plural(whole, 'trainable token')} of "
        f"{plural(rollouts, 'rollout')}), or not at all where advantages are normalised in groups already."
    )
    return Tried("all_ranks", rollouts > 1 and not flat, sentence, {"tokens": whole, "rollouts": rollouts})


FINDING = Finding("too_few_tokens_to_whiten", "Too little to whiten over", check)
