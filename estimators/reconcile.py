"""Which convention, and which mistake, made the recorded advantages.

Every formula of the catalogue is computed and compared, first as each convention whitens, then before
whitening and with the other kernels; where nothing agrees, once more with each known mistake. Formulas per
token are asked a cheap question first: whether the recorded numbers of a few whole groups are, rollout by
rollout, a line of the raw ones. γ, λ and the KL coefficient are read off the numbers (`reconcile_solve`).
"""

from collections.abc import Sequence
from dataclasses import replace

import torch

from estimators.batch import Batch
from estimators.mistakes import MISTAKES
from estimators.reconcile_configured import as_configured, equals
from estimators.reconcile_formulas import formulas
from estimators.reconcile_found import Found
from estimators.reconcile_options import as_option
from estimators.reconcile_probes import same_formula, telling
from estimators.reconcile_proof import Proof, constants, fitted, name_of, proved
from estimators.reconcile_recorded import View
from estimators.reconcile_search import Search
from estimators.reconcile_stages import right, wrong
from estimators.reconcile_words import candidate, nothing, summary, unexplained
from estimators.reconciliation import Candidate, Hints, Level, Reconciliation, Recorded, TooLong, Verdict

__all__ = ["Candidate", "Hints", "Reconciliation", "Recorded", "TooLong", "Verdict", "reconcile"]

NO_HINTS = Hints()
_KINDS = {"own": 0, "none": 1, "other": 2}
#: All conventions may agree, on a batch of zeros: the configured one is not to be cut off.
_NEAREST, _MOST = 5, 100


def reconcile(
    batch: Batch, recorded: Recorded, hints: Hints = NO_HINTS, until: float | None = None
) -> Reconciliation:
    """Compares the recorded advantages with every convention and every mistake that the batch allows.

    Works on the CPU, whatever device the tensors are on. Raises TooLong at `until` (of the monotonic clock).
    """
    batch, recorded = batch.to("cpu"), replace(recorded, advantages=recorded.advantages.cpu())
    view = View(batch, recorded)
    if not int((view.counts > 0).sum()):
        return nothing(recorded)
    search = _searched(batch, view, hints, until)
    coarse = None if _matched(search, wrong=True) else view.coarse()
    if coarse is not None:
        again = _searched(batch, View(batch, recorded, coarse), hints, until)
        search = again if _matched(again, wrong=True) else search
    if search.configured is not None and search.configured.fit.matched:
        return _agreed(search, search.configured)
    return _answer(search)


def _agreed(search: Search, found: Found) -> Reconciliation:
    """The answer where what is configured gives what is recorded: whatever else would give it, too."""
    best = candidate(found, search, True, equals(found))
    level: Level = "token" if search.view.recorded.per_token else "rollout"
    return Reconciliation(level, "match", (best,), search.view.precision.name, best.explanation)


def _searched(batch: Batch, view: View, hints: Hints, until: float | None) -> Search:
    search = Search(batch, view, hints, until)
    search.configured = as_configured(search, hints)
    if search.configured is not None:
        search.found.append(search.configured)
        if search.configured.fit.matched:
            return search
    known = formulas(batch, hints)
    if not right(search, known) and not right(search, known, others=True):
        right(search, known, grid=True)
    matched = _matched(search)
    if search.exact():
        agreeing = {each.convention.estimator for each in matched}
        wrong(search, [formula for formula in known if formula.estimator in agreeing], beside=True)
    else:
        wrong(search, known)
    return search


def _matched(search: Search, wrong: bool = False) -> list[Found]:
    return [each for each in search.found if each.fit.matched and (wrong or each.label is None)]


def _answer(search: Search) -> Reconciliation:
    proof = Proof(search)
    every = [each for each in _matched(search, wrong=True) if proof.supported(each)]
    every = [as_option(each, search.hints) for each in every]
    if search.view.scale == 0:  # that many mistakes give 0 everywhere tells of none of them
        every = [each for each in every if each.label is None]
    rights = [each for each in every if each.label is None]
    if rights and _beaten(search, rights, every):
        rights = []
    # A constant that was fitted explains less than a mistake that fits without one.
    plain = [each for each in every if not fitted(each.label)]
    every = plain if any(each.label for each in plain) or rights else every
    best = _apart(search, rights or every)
    top = _with_rivals(_tier(best, search.hints), best, search.hints)
    rest = [each for each in _distinct(best, search.hints) if each not in top]
    agreeing = {each.convention.name for each in rights}
    beside = [each for each in _distinct(every, search.hints)
              if each.label is not None or each.convention.name not in agreeing]  # fmt: skip
    listed = [*top, *rest, *(beside if rights else [])][:_MOST]
    candidates = [candidate(each, search, True, _same_as(each, top), proved(search, each, top))
                  for each in listed]  # fmt: skip
    nearest = _nearest(search, [each.convention.name for each in listed])
    if not top and search.configured is not None:
        own = search.configured.convention.name
        nearest = [search.configured, *(each for each in nearest if each.convention.name != own)]
    candidates += [candidate(each, search, False) for each in nearest]
    return _verdict(search, top, candidates)


def _with_rivals(top: list[Found], best: Sequence[Found], hints: Hints) -> list[Found]:
    """Beside a mistake, the others that give the same numbers of the same convention: none of several is the
    one, whichever stands first in the registry."""
    if not top or top[0].label is None:
        return top
    names, own = {name_of(each.label) for each in top}, top[0].convention
    others = [each for each in _distinct(best, hints) if each.convention is own and each not in top]
    return top + [each for each in others if name_of(each.label) not in names]


def _verdict(search: Search, top: Sequence[Found], candidates: Sequence[Candidate]) -> Reconciliation:
    sure = bool(top) and len({name_of(each.label) for each in top}) == 1 and _one(top, search.hints)
    verdict: Verdict = "no_match" if not top else "match" if sure else "ambiguous"
    deciding, rollout = _deciding(top, search) if verdict == "ambiguous" else (None, None)
    level: Level = "token" if search.view.recorded.per_token else "rollout"
    text = summary(verdict, candidates, len(top)) if top else unexplained(search, candidates)
    return Reconciliation(
        level, verdict, tuple(candidates), search.view.precision.name, text, deciding, rollout
    )


def _beaten(search: Search, rights: Sequence[Found], every: Sequence[Found]) -> bool:
    """Whether a mistake comes so much nearer than anything without one that it has to be believed: where
    what is without one is no convention's own way."""
    if not every or any(each.kind != "other" for each in rights):
        return False
    bound = 100 * min(each.fit.rms for each in every) + 3 * search.view.fine
    return min(each.fit.rms for each in rights) > bound


def _apart(search: Search, matched: Sequence[Found]) -> list[Found]:
    """Those that the precision of the recorded numbers cannot tell from the nearest one."""
    if not matched:
        return []
    bound = 3 * min(each.fit.rms for each in matched) + search.view.fine
    return [each for each in matched if each.fit.rms <= bound]


def _distinct(found: Sequence[Found], hints: Hints) -> list[Found]:
    """The simplest of each convention and mistake, best first."""
    kept: dict[tuple[str, str | None], Found] = {}
    for each in sorted(found, key=lambda one: _rank(one, hints)):
        kept.setdefault((each.convention.name, each.label), each)
    return list(kept.values())


def _rank(found: Found, hints: Hints) -> tuple[bool, int, int, int, bool, bool, int]:
    names, own = list(MISTAKES), name_of(found.label)
    place = names.index(own) if own in names else 0
    return (
        found.label is not None,
        constants(found.label),
        place,
        _KINDS[found.kind],
        found.convention.name != hints.convention,
        found.convention.framework != hints.framework,
        found.order,
    )


def _tier(found: Sequence[Found], hints: Hints) -> list[Found]:
    """The candidates of which nothing prefers one: no more wrong, and no more whitened, than the best. Of
    mistakes, none is likelier than another that takes as few numbers."""
    ranked = _distinct(found, hints)
    alike = 2 if ranked and ranked[0].label is not None else 4
    return [each for each in ranked if _rank(each, hints)[:alike] == _rank(ranked[0], hints)[:alike]]


def _same_as(found: Found, top: Sequence[Found]) -> tuple[str, ...]:
    others = (each for each in top if each.convention is not found.convention)
    return tuple(each.convention.name for each in others if same_formula(found, each))


def _one(top: Sequence[Found], hints: Hints) -> bool:
    """Whether there is one candidate, or several names of one formula of which the file names one."""
    if len(top) == 1:
        return True
    named = top[0].convention.name == hints.convention or top[0].convention.framework == hints.framework
    return named and all(same_formula(top[0], each) for each in top[1:])


def _nearest(search: Search, listed: Sequence[str]) -> list[Found]:
    """The best of each convention that did not match: most rollouts, then least error."""
    best: dict[str, Found] = {}
    others = [each for each in search.found if not each.fit.matched and not _by_chance(each)]
    for each in sorted(others, key=lambda one: (-one.fit.rollouts_matched, one.fit.rms, one.order)):
        if each.convention.name not in listed:
            best.setdefault(each.convention.name, each)
    return list(best.values())[:_NEAREST]


def _by_chance(found: Found) -> bool:
    """Whether it is a mistake that most rollouts contradict: of so many tried, some always come near."""
    return found.label is not None and 2 * found.fit.rollouts_matched < found.fit.rollouts


def _deciding(top: Sequence[Found], search: Search) -> tuple[str | None, int | None]:
    """What would tell the candidates apart, in a sentence, and the rollout they differ most on."""
    told = next(telling(top, search.batch), None)
    means = torch.stack([each.means for each in top]).nan_to_num(0.0)
    spread = means.amax(dim=0) - means.amin(dim=0)
    most = int(spread.argmax())
    rollout = most if float(spread[most]) > 1e-9 * max(search.view.scale, 1e-3) else None
    if told is None:
        return "No batch tells them apart: they are one formula under several names.", rollout
    text, one, other = told
    names = f"{one.convention.name} and {other.convention.name}"
    return f"{text[0].upper()}{text[1:]} would decide between {names}.", rollout
