"""Recorded advantages that the configured convention does not give: they are another convention's, what a
known mistake makes of them, or nothing's.

Seen as: a run that does not learn although rewards are right; the same configuration that gives other
numbers in another version (verl#7278, AReaL#1419, slime#1414, PipelineRL#54).

Remedy: correct what the mistake names, or name in the header what the trainer really does; the verify page
shows every rollout's difference.

Evidence: `recorded`, `verdict`, `convention`, `mistake`, `whitening`, `max_abs_error`, `p99_abs_error`,
`rollouts_matched`, `rollouts`, `precision`, `configured`, `params`.
"""

from typing import Any

import numpy as np

from app import reconciling
from app.attempts import Attempts
from app.findings.finding import Finding, Report, report
from app.findings.view import Ints, View
from app.formatting import integer, number, plural
from estimators import CONVENTIONS
from storage import batches
from storage.database import AnySession

CODE = "recorded_advantages_disagree"
TITLE = "Recorded advantages are not what they should be"
MISTAKE = "The trainer computed what comes out when this is done wrong, and pushed the policy by it."
OTHER = "The header names another way of computing them than the one that was used."
#: Mistakes that are none while no convention is named.
SETTINGS = ("wrong_ddof:", "wrong_eps:")
SETTING = (
    "Either std, and any small ε, is in use, and nothing says which was meant here: the population std makes "
    "the advantages of a group of n larger by √(n/(n−1)) than the sample std."
)
NONE = (
    "No convention and no known mistake gives these numbers, although everything that the configured one "
    "needs is recorded."
)


def prepare(
    session: AnySession,
    batch_id: str,
    view: View,
    found: dict[str, Any] | None = None,
    attempts: Attempts | None = None,
) -> None:
    """Put the reconciliation where `check` looks for it: `found` (empty: not known yet), else that of a batch
    that is small enough. `attempts` learns whether it raised."""
    if found is None and int(view.length.clip(min=0).sum()) <= reconciling.MOST_TOKENS:
        batch = batches.get_any(session, batch_id)
        found = reconciling.at_once(
            session, batch_id, view.fields, view.header, batch.format if batch else "", attempts
        )
    view.facts[CODE] = found or None


def check(view: View) -> Report | None:
    found: dict[str, Any] | None = view.facts.get(CODE)
    return None if found is None else judge(view, found)


def judge(view: View, found: dict[str, Any]) -> Report | None:
    """The report on a batch whose reconciliation (`app.reconciling.answer`) is `found`."""
    matched = [each for each in found["candidates"] if each["matched"]]
    said = found["configured"]
    if found["verdict"] == "nothing_recorded" or any(_as_configured(each, said) for each in matched):
        return None
    plain = [each for each in matched if each["mistake"] is None]
    if plain:
        return _other(view, found, plain[0]) if said["estimator"] else None
    if matched:
        return (_set_otherwise if _free(matched[0], said) else _mistaken)(view, found, matched[0])
    return None if found["unknown"] or not found["candidates"] else _unexplained(view, found)


def _as_configured(candidate: dict[str, Any], said: dict[str, Any]) -> bool:
    """Whether this is what the header names: the convention, or its estimator where it names no framework."""
    if candidate["mistake"] is not None:
        return False
    names = {candidate["convention"], *candidate["same_as"]}
    if said["framework"] is not None and said["convention"] is not None:
        left = said.get("alternatives", ()) if candidate["whitening"] == "own" else ()
        return bool({said["convention"], *left} & names)
    return said["estimator"] in {CONVENTIONS[name].estimator for name in names if name in CONVENTIONS}


def _free(candidate: dict[str, Any], said: dict[str, Any]) -> bool:
    """Whether all that is unlike the convention is a divisor or an ε that nobody says was another."""
    if not candidate["mistake"].startswith(SETTINGS):
        return False
    if said["framework"] is not None and said["convention"] is not None:
        return False
    return said["estimator"] in (None, CONVENTIONS[candidate["convention"]].estimator)


def _set_otherwise(view: View, found: dict[str, Any], best: dict[str, Any]) -> Report:
    return report(
        view,
        "info",
        f"The recorded advantages are those of {best['convention']} but for one setting, "
        f"{best['mistake'].removeprefix('wrong_')}.",
        explanation=f"{best['explanation']} {SETTING}",
        remedy="Name the convention and its ε in the header if another was meant.",
        evidence=_evidence(found, best),
        rollouts=_rows(view, found, best),
    )


def _mistaken(view: View, found: dict[str, Any], best: dict[str, Any]) -> Report:
    return report(
        view,
        "critical",
        f"The recorded advantages are those of {best['convention']} with a mistake: {best['mistake']}.",
        explanation=f"{best['explanation']} {MISTAKE}",
        remedy="Correct the trainer, and compute the advantages of this batch anew before it is used again.",
        evidence=_evidence(found, best),
        rollouts=_rows(view, found, best),
    )


def _other(view: View, found: dict[str, Any], best: dict[str, Any]) -> Report:
    named = found["configured"]["convention"] or found["configured"]["estimator"]
    return report(
        view,
        "warning",
        f"The header names {named}, but the recorded advantages are those of {best['convention']}.",
        explanation=f"{best['explanation']} {OTHER}",
        remedy=f"Check the run's configuration: {named} was meant, or the header is out of date.",
        evidence=_evidence(found, best),
        rollouts=_rows(view, found, best),
    )


def _unexplained(view: View, found: dict[str, Any]) -> Report:
    best, named = found["candidates"][0], found["configured"]["convention"]
    return report(
        view,
        "warning",
        f"The recorded advantages are not those of {named}: the nearest, {best['convention']}, agrees on "
        f"{integer(best['rollouts_matched'])} of {plural(best['rollouts'], 'rollout')} and is off by up to "
        f"{number(best['max_abs_error'])}.",
        explanation=NONE,
        remedy="Look at the rollouts that differ most. If the trainer clips, scales or filters advantages in "
        "a way of its own, leave adv_estimator out of the header.",
        evidence=_evidence(found, best),
        rollouts=_places(view, best["failing"]),
    )


def _evidence(found: dict[str, Any], best: dict[str, Any]) -> dict[str, Any]:
    said = found["configured"]
    same = ("convention", "mistake", "whitening", "max_abs_error", "p99_abs_error")
    return {
        "recorded": found["recorded"],
        "verdict": found["verdict"],
        **{name: best[name] for name in (*same, "rollouts_matched", "rollouts")},
        "precision": found["precision"],
        "configured": said["convention"] or said["estimator"],
        "params": said["params"],
    }


def _rows(view: View, found: dict[str, Any], best: dict[str, Any]) -> Ints:
    """Rollouts whose advantages differ from what the nearest convention without a mistake gives."""
    right = [each for each in found["candidates"] if each["mistake"] is None and each["failing"]]
    own = [each for each in right if each["convention"] == best["convention"]]
    return _places(view, (own or right)[0]["failing"]) if right else np.arange(view.rollouts)


def _places(view: View, numbers: list[int]) -> Ints:
    return np.flatnonzero(np.isin(view.index, np.asarray(numbers, dtype=np.int64)))


FINDING = Finding(CODE, TITLE, check)
