"""The search: formulas × settings × mistakes × whitenings, the cheap questions first."""

from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from estimators.batch import Batch
from estimators.conventions import Convention
from estimators.estimator import Raw
from estimators.membership import MembershipParams
from estimators.mistakes.mistake import Input, Setup, Solve, Variant, rows_changed
from estimators.reconcile_formulas import Formula, compares
from estimators.reconcile_found import Found, Option
from estimators.reconcile_last import Last
from estimators.reconcile_noise import in_single, shaken
from estimators.reconcile_options import whitening_options
from estimators.reconcile_prospects import Prospects
from estimators.reconcile_recorded import Fit, View
from estimators.reconcile_rules import Rules, rules_of
from estimators.reconcile_sample import (
    GROUPED,
    LARGEST,
    REGROUPED,
    SIBLINGS,
    SMALL,
    Sample,
    members,
    on_lines,
    rows_of,
    seeds,
    take,
    tokens_of,
    view_of,
)
from estimators.reconcile_solve import settings
from estimators.reconcile_stack import Ahead
from estimators.reconciliation import Hints
from estimators.refused import Refused
from estimators.registry import ESTIMATORS
from estimators.rewards import ScoreParams, rollout_scores
from estimators.shape import Shape
from estimators.whitening import Affine


class Search:
    """What is kept over the trials of one reconciliation, which ends at `until` on the monotonic clock."""

    def __init__(self, batch: Batch, view: View, hints: Hints, until: float | None = None) -> None:
        self.batch, self.view, self.hints, self.until = batch, view, hints, until
        self.small = batch.tokens <= SMALL
        self.prospects = Prospects(view)
        self.ahead = Ahead()
        self.ran: dict[str, bool] = {}
        self.keys: dict[int, tuple[Any, str]] = {}
        self.found: list[Found] = []
        #: Other whitenings that the configured convention has settings for, by its name.
        self.options = whitening_options(hints)
        #: What the configured request gives, where one is configured.
        self.configured: Found | None = None
        #: Raw advantages of the batch as it is: all of a small one, else only those per rollout.
        self.kept: dict[str, Raw] = {}
        #: Whether the recorded numbers vary inside rollouts.
        self.varied = view.recorded.per_token and view.per_rollout is None
        self.seed = seeds(batch) if not self.small else torch.arange(batch.rollouts)
        self.whole = self._sample(self.seed if self.small else members(self.seed, batch.group, GROUPED))
        self.few = self.whole if self.small else self._sample(self.seed)
        self.rows = self.whole.rows
        #: Formulas, by key, whose raw advantages vary inside rollouts, where the recorded ones do not.
        self.varying: set[str] = set()
        #: The last batch whose token rewards were summed up, and it so.
        self.sums: tuple[Batch, Batch] | None = None
        #: The last batch with a mistake, some whole groups of it, and what is recorded of them.
        self.part: tuple[Batch, Batch, View] | None = None
        #: The last advantages per token of a long batch.
        self.last = Last()
        #: What `plain` gave, where it does not take much memory.
        self.shapes: dict[int, list[tuple[Setup, Shape]]] = {}

    def _sample(self, rows: Tensor) -> Sample:
        if self.small:
            return Sample(rows, self.batch, self.view)
        return Sample(rows, take(self.batch, rows), view_of(self.view, rows))

    def sample(self, formula: Formula | Setup) -> Sample:
        """Whole groups where the formula compares siblings, else a few rollouts."""
        return self.siblings if compares(formula) else self.few

    @cached_property
    def siblings(self) -> Sample:
        """The groups that are looked at; where these were cut short, few as a whole."""
        sizes = torch.bincount(self.batch.group, minlength=1)
        if self.small or not bool((sizes[self.batch.group[self.rows]] > LARGEST).any()):
            return self.whole
        return self._sample(members(self.seed, self.batch.group, REGROUPED, SIBLINGS))

    # Running one setup ---------------------------------------------------------------------------------

    def raw(self, setup: Setup) -> Raw | None:
        """The raw advantages, None where the estimator refuses."""
        run, key = setup.run or ESTIMATORS[setup.estimator].run, ""
        if setup.run is None and setup.batch is self.batch:
            key = self.key(setup)
            if key in self.kept:
                return self.kept[key]
        batch = setup.batch if self.small else self.summed(setup)
        try:
            whole = not self.small and batch.tokens == self.batch.tokens
            found = self.last.run(replace(setup, batch=batch)) if whole else None
            found = found or run(batch, setup.params, torch.float64)
        except Refused:
            return None
        if key and (self.small or not found.per_token):
            self.kept[key] = found
        return found

    def summed(self, setup: Setup) -> Batch:
        """The batch with its token rewards summed up as scores, once for all formulas that see sums only."""
        batch, params = setup.batch, setup.params
        tokens = batch.token_level_rewards
        if not isinstance(params, MembershipParams) or self.token_level(setup):
            return batch
        if tokens is None or params.score != "tokens" or params.kl_coef or params.reward_weights is not None:
            return batch
        kept: tuple[Tensor, Tensor, Tensor] | None = batch.derived.get("score sums")
        if kept is None or kept[0] is not tokens or kept[1] is not batch.scores:
            kept = tokens, batch.scores, rollout_scores(batch, ScoreParams())
            batch.derived["score sums"] = kept
        if self.sums is None or self.sums[0] is not batch:
            bare = rows_changed(batch, scores=kept[2], token_level_rewards=None, token_level_scores=None)
            self.sums = batch, bare
        return self.sums[1]

    def exact(self, since: int = 0) -> bool:
        """Whether one found from place `since` on comes as near as the recorded numbers can say."""
        return any(each.fit.matched and each.fit.rms <= 3 * self.view.fine for each in self.found[since:])

    def sees(self, formula: Formula, variant: Variant) -> bool:
        """Whether the mistake can make the formula give what is recorded: it looks at what is changed, and
        varies inside rollouts as the recorded numbers do or do not."""
        if formula.key in self.varying or not self.of_kind(formula):
            return False
        if isinstance(variant, Solve):
            return hasattr(formula.params, variant.setting)
        if not isinstance(variant, Input):
            return True
        setup = Setup(self.batch, formula.estimator, formula.params)
        if variant.settings and variant.alter(setup) is None:
            return False
        if variant.groups:
            rules = self.rules(formula)
            return compares(formula) if rules is None else rules.grouped
        if variant.rows or variant.scores or self.token_level(setup):
            return True
        # One number per rollout sees single tokens only by counting them.
        return formula.estimator == "opo" or any(one.whitening.scope != "none" for one in formula.conventions)

    def rules(self, formula: Formula) -> Rules | None:
        return rules_of(formula.estimator, formula.params, formula.key)

    def of_kind(self, formula: Formula) -> bool:
        """Whether the formula can give numbers that vary inside rollouts, where the recorded ones do."""
        rules = self.rules(formula)
        return rules is None or rules.per_token or not self.varied

    def token_level(self, setup: Setup) -> bool:
        """Whether the estimator gives a number per token."""
        key = self.key(setup)
        rules = rules_of(setup.estimator, setup.params, key)
        if rules is not None:
            return rules.per_token
        if key not in self.ran:
            run = ESTIMATORS[setup.estimator].run
            try:
                self.ran[key] = run(self.whole.part, setup.params, torch.float64).per_token
            except Refused:
                self.ran[key] = False
        return self.ran[key]

    def key(self, setup: Setup) -> str:
        """Estimator and parameters in one text."""
        kept = self.keys.get(id(setup.params))
        if kept is None or kept[0] is not setup.params:
            kept = self.keys[id(setup.params)] = setup.params, f"{setup.estimator} {setup.params!r}"
        return kept[1]

    # The parameters to try -----------------------------------------------------------------------------

    def settings(self, formula: Formula, variant: Input | None, grid: bool) -> Iterator[Setup]:
        """Setups of the formula on the whole batch, each with parameters of its own."""
        setup = Setup(self.batch, formula.estimator, formula.params)
        if not self.token_level(setup):
            yield setup
            return
        sample = self.sample(formula)
        part = replace(setup, batch=sample.part)
        altered = part if variant is None else self._altered(part, variant, sample)
        if altered is None or type(altered.params) is not type(setup.params):
            return
        for params in settings(altered, sample.seen, grid):
            changed = {"gamma": getattr(params, "gamma", None), "lam": getattr(params, "lam", None)}
            known = {name: value for name, value in changed.items() if value is not None}
            if getattr(params, "kl_coef", 0) and not getattr(altered.params, "kl_coef", 0):
                known["kl_coef"] = params.kl_coef
            yield replace(setup, params=replace(setup.params, **known))

    def _altered(self, part: Setup, variant: Input, sample: Sample) -> Setup | None:
        """The setup of the sample with the mistake; as it is where that is only in who is whose sibling."""
        if not variant.rows or self.small:
            return variant.alter(part)
        if variant.shared and not variant.groups:
            batch = self.changed(part, variant, sample)
            return part if batch is None else replace(part, batch=batch)
        whole = None if variant.groups else variant.alter(replace(part, batch=self.batch))
        return part if whole is None else replace(whole, batch=take(whole.batch, sample.rows))

    def changed(self, setup: Setup, variant: Input, sample: Sample) -> Batch | None:
        """The rollouts of the sample after a mistake that is the same for every formula, worked out once;
        None where it does not apply."""
        key = id(variant), id(sample)
        if key not in self.ahead.parts:
            self.ahead.parts[key] = variant, sample, self._changed(setup, variant, sample)
        return self.ahead.parts[key][2]

    def _changed(self, setup: Setup, variant: Input, sample: Sample) -> Batch | None:
        if variant.mask_of is not None:
            return replace(sample.part, response_mask=variant.mask_of(self.batch, sample.rows))
        altered = variant.alter(replace(setup, batch=self.batch))
        return None if altered is None else take(altered.batch, sample.rows)

    # Comparing -----------------------------------------------------------------------------------------

    def compare(self, shape: Shape, affine: Affine) -> Fit:
        raw = shape.raw
        if not raw.per_token or self.small:
            return self.view.fit(raw.advantages, raw.per_token, affine)
        return self.last.fit(shape, affine, lambda: self._compared(raw, affine))

    def _compared(self, raw: Raw, affine: Affine) -> Fit:
        spread = Affine(*(rows_of(part, self.rows) for part in (affine.centre, affine.factor, affine.back)))
        quick = self.whole.seen.fit(tokens_of(raw.advantages, self.batch, self.rows), True, spread)
        if quick.rollouts_matched < 0.9 * quick.rollouts:
            return quick
        return self.view.fit(raw.advantages, True, affine)

    def keep(
        self, setup: Setup, shape: Shape, option: Option, convention: Convention, known: Fit | None = None
    ) -> Fit:
        """Compares one option, unless its fit is known, and keeps it for the convention."""
        fit = known or self.compare(shape, option.affine)
        if known is None and not fit.matched and self._rounding(setup, shape, fit):
            whitening = option.whitening if option.label is None else None
            better = in_single(self.view, setup, shape, option.affine, whitening)
            if better is not None and better.rollouts_matched > fit.rollouts_matched:
                fit = better
        self.add(setup, option, convention, fit, option.affine.apply(shape.moments[1]))
        return fit

    def _rounding(self, setup: Setup, shape: Shape, fit: Fit) -> bool:
        """Whether single precision may be all that parts the recorded numbers from those computed."""
        if shape.raw.per_token and not self.small:
            return False
        if 0.8 * fit.rollouts <= fit.rollouts_matched and not shape.raw.per_token:
            return True
        near = self.small or 2 * fit.rollouts_matched >= fit.rollouts
        return near and compares(setup) and shaken(setup.batch) is not None

    def add(self, setup: Setup, option: Option, convention: Convention, fit: Fit, means: Tensor) -> None:
        """Keeps what one option came to. `means` `[B]`: what it gives each rollout, NaN where not known."""
        self.prospects.best = max(self.prospects.best, fit.rollouts_matched)
        what = option.kind, option.whitening, option.label, option.text
        self.found.append(Found(convention, setup.params, *what, fit, means, len(self.found)))

    def scopes(self, shape: Shape) -> set[str]:
        """The scopes over which the recorded means of the rollouts are a line of the raw ones: no others can
        have been whitened."""
        batch, found = self.batch, set()
        for scope, ids in (("batch", None), ("group", batch.group), ("data_source", batch.data_source)):
            if (scope == "batch" or ids is not None) and on_lines(shape.moments[1], self.view, ids):
                found.add(scope)
        return found
