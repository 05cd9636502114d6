"""Which formulas can have given what is recorded, by the rules they obey and without computing them."""

from dataclasses import fields
from typing import Any

import torch
from torch import Tensor

from estimators.batch import Batch
from estimators.membership import MembershipParams, members_of
from estimators.mistakes.mistake import Setup, dense
from estimators.reconcile_recorded import View
from estimators.reconcile_rules import Rules, broken_groups, broken_steps, step_key
from estimators.reconcile_stack import NEVER, Tally
from estimators.refused import Refused
from estimators.rewards import ScoreParams, TokenRewardParams, rollout_scores

#: A group of so many is not reached by bounds of standardised scores.
_BOUNDED = 64
#: So many groups are looked at first, and where most of at least so many hold no lines, no others.
_FIRST, _ENOUGH = 64, 16
#: So many scores are kept to be found again.
_SCORES = 15
_SCORE = tuple(each.name for each in fields(ScoreParams))


class Prospects:
    """Answers on one variant after another; what formulas share is worked out once for each."""

    def __init__(self, view: View) -> None:
        self.view = view
        #: The most rollouts that anything compared so far agrees on.
        self.best = 0
        self.rollouts = int((view.counts > 0).sum())
        self._known: dict[Any, tuple[Any, Any]] = {}
        self._score_keys: dict[int, tuple[Any, str]] = {}
        self._scores: list[Tensor] = []

    def forget(self) -> None:
        """The answers on another batch than the one as it is."""
        self._known = {key: kept for key, kept in self._known.items() if key[0]}

    def _once(self, key: tuple[Any, ...], objects: tuple[Any, ...], work: Any) -> Any:
        """`work()`, once for these objects, which are kept alive so that their ids stay theirs."""
        whole = (*key, *(id(each) for each in objects))
        if whole not in self._known:
            self._known[whole] = objects, work()
        return self._known[whole][1]

    def steps(self, setup: Setup, seen: View, rules: Rules | None, plain: bool) -> bool:
        """Whether the recorded numbers can be a recursion over this setup, whose batch is that of `seen`."""
        if rules is None or not rules.stepped or not seen.recorded.per_token or seen.per_rollout is not None:
            return True
        batch, params = setup.batch, setup.params
        if batch.next_values is not None or not isinstance(params, TokenRewardParams):
            return True
        key = plain, "steps", step_key(params)
        objects = batch.response_mask, batch.values, batch.token_level_rewards, batch.token_level_scores
        return not self._once(key, (*objects, seen), lambda: broken_steps(setup, seen))

    def tally(self, setup: Setup, rules: Rules, plain: bool, same: bool, ids: Tensor | None = None) -> Tally:
        """How many groups of this setup, on the whole batch, hold numbers that are no lines of the scores, of
        how many that can tell; None where that says nothing.

        plain  nothing is changed; `same`: nothing that the scores are made of
        ids    `[B]`: the scopes of the whitening, where it has some of its own
        """
        batch, params = setup.batch, setup.params
        if not rules.lined or setup.run is not None:
            return None
        if not isinstance(params, MembershipParams) or (batch.rollout_id is not None):
            return None
        if self.view.recorded.per_token and self.view.per_rollout is None:
            return NEVER
        objects = batch.scores, batch.token_level_rewards, batch.token_level_scores, batch.response_mask
        try:
            scores = self._once(
                (plain or same, "scores", self._score_key(params)),
                objects,
                lambda: self._shared(rollout_scores(batch, params)),
            )
            group = self._once(
                (plain, "members", params.group_size, params.group_count, params.incomplete),
                (batch.group, batch.index),
                lambda: members_of(batch, params)[0],
            )
        except Refused:
            return None
        broken, telling, spread = self._once(
            (plain, "lines"),
            (scores, group, batch.response_mask, ids),
            lambda: _broken(batch, scores, group, ids, self.view),
        )
        return None if _bounds(params, spread, batch) else (broken, telling)

    def open(self, tally: Tally) -> bool:
        """Whether what so many groups say leaves a chance to come nearer than anything so far."""
        if tally is None:
            return True
        broken, telling = tally
        return 2 * broken <= telling and (not broken or self.rollouts - broken > self.best)

    def _score_key(self, params: Any) -> str:
        """What the scores depend on besides the batch."""
        kept = self._score_keys.get(id(params))
        if kept is None:
            kept = params, repr([getattr(params, name) for name in _SCORE])
            self._score_keys[id(params)] = kept
        return kept[1]

    def _shared(self, scores: Tensor) -> Tensor:
        """Scores that are equal to earlier ones are those, so that what is known of them is found."""
        for each in self._scores:
            if torch.equal(each.nan_to_num(torch.inf), scores.nan_to_num(torch.inf)):
                return each
        self._scores = [*self._scores[-_SCORES:], scores]
        return scores


def _broken(
    batch: Batch, scores: Tensor, group: Tensor, ids: Tensor | None, view: View
) -> tuple[int, int, float]:
    """Groups that hold no lines, groups that can tell, and how far the scores reach."""
    if ids is not None:
        group = dense(group * (int(ids.max()) + 1) + ids)
    counted = batch.unmasked > (2 if batch.lengths_known else 0)
    kept = scores[torch.isfinite(scores)]
    spread = float(kept.max() - kept.min()) if kept.numel() else 0.0
    every = (int(group.max()) + 1) // _FIRST if group.numel() else 0
    if every > 1:
        broken, telling = broken_groups(scores, group, view, counted & (group % every == 0))
        if telling >= _ENOUGH and broken > 0.75 * telling:
            return broken, telling, spread
    return *broken_groups(scores, group, view, counted), spread


def _bounds(params: Any, spread: float, batch: Batch) -> bool:
    """Whether bounds of the advantages may have bent a line."""
    ends = getattr(params, "advantage_clip_low", None), getattr(params, "advantage_clip_high", None)
    near = min((abs(end) for end in ends if end is not None), default=None)
    if near is None:
        return False
    return 2 * spread >= near or int(torch.bincount(batch.group).max()) > _BOUNDED
