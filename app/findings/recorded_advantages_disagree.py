"""Recorded advantages that the configured convention does not give: they are another convention's, those of
another setting, what a known mistake makes of them, or nothing's.

* A mistake, critical where it is proved: it explains the numbers to their precision and is the only reading
  left. Where others are left it is a warning that says what fits.
* Another setting, warning: the configured convention gives the numbers with another γ, λ, ε, weight or switch
  than the header names. Both values are named, and how far off the numbers are with the header's. A setting
  that agrees to the precision of the numbers contradicts nothing.
* Another convention, warning.
* Nothing, warning: everything that the configured convention needs is there, and neither it nor anything else
  known gives the numbers. How far off they are, and where most; info where a lower precision on the way would
  leave as much. Where something needed is missing, `recorded_advantages_unchecked` says so instead.

Seen as: a run that does not learn although rewards are right; the same configuration that gives other
numbers in another version (verl#7278, AReaL#1419, slime#1414, PipelineRL#54).

Remedy: correct what the mistake names, or name in the header what the trainer really does; the verify page
shows every rollout's difference.

Evidence: `kind` ("mistake" | "setting" | "convention" | "unexplained"), `recorded`, `verdict`, `convention`,
`mistake`, `proved`, `contradicts` (`name`, `configured`, `recorded`, and of numbers `uncertainty`),
`whitening`, `max_abs_error`, `p99_abs_error`, `rollouts_matched`, `rollouts`, `precision`, `configured`,
`params`. Of numbers that nothing gives: `compared`, `off`, `max_abs_error` in `rollout` at `token` (`value`
recorded, `computed`), `median_abs_error`, `correlation`, `zeros`, `ends`, `shift`.
"""

from typing import Any

import numpy as np

from app import reconciling
from app.attempts import Attempts
from app.findings.contradicted import contradicted, evidence
from app.findings.finding import Finding, Report, report
from app.findings.unexplained import lacking, places, unexplained
from app.findings.view import Ints, View
from estimators import CONVENTIONS
from storage import batches
from storage.database import AnySession

CODE = "recorded_advantages_disagree"
TITLE = "Recorded advantages are not what they should be"
MISTAKE = "The trainer computed what comes out when this is done wrong, and pushed the policy by it."
OPEN = (
    "Whether it is a mistake is not proved: the trainer may have been set so, or do something that is not "
    "known here."
)
OTHER = "The header names another way of computing them than the one that was used."
#: Mistakes that are none while no convention is named.
SETTINGS = ("wrong_ddof:", "wrong_eps:")
#: And the parameters that they are about.
NAMES = {"wrong_ddof": "ddof", "wrong_eps": "epsilon"}
SETTING = (
    "Either std, and any small ε, is in use, and nothing says which was meant here: the population std makes "
    "the advantages of a group of n larger by √(n/(n−1)) than the sample std."
)
#: What a header names as well, which does not say a version or a trainer.
VERSIONS = {
    "gae/verl": ("gae/verl-0.4",),
    "reinforce_plus_plus/verl": ("reinforce_plus_plus/verl-0.8",),
    "grpo_vectorized/verl": ("grpo_vectorized/verl-0.7",),
    "grpo/trl-group": ("grpo/trl-async",),
}


STRANGE = "What it does is not known here, so this may be right."


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
    own = [each for each in matched if _as_configured(each, said)]
    own = [each for each in own if each["convention"] == said["convention"]] or own
    if found["verdict"] == "nothing_recorded" or any(not each.get("contradicts") for each in own):
        return None
    if own:
        return contradicted(view, found, own[0])
    plain = [each for each in matched if each["mistake"] is None]
    if plain:
        return _other(view, found, plain[0]) if said["estimator"] else None
    if matched and _said(matched[0], said):
        return contradicted(view, found, matched[0] | {"contradicts": [_said(matched[0], said)]})
    if matched and (strange := _not_known(said)):
        return _fits(view, found, matched[0], strange)
    if matched:
        return (_set_otherwise if _free(matched[0], said) else _mistaken)(view, found, matched[0])
    return None if lacking(view, found) else unexplained(view, found)


def _as_configured(candidate: dict[str, Any], said: dict[str, Any]) -> bool:
    """Whether this is what the header names: the convention, or its estimator where it names no framework."""
    if candidate["mistake"] is not None:
        return False
    names = {candidate["convention"], *candidate["same_as"]}
    if said["framework"] is not None and said["convention"] is not None:
        left = said.get("alternatives", ()) if candidate["whitening"] == "own" else ()
        return bool({said["convention"], *left, *VERSIONS.get(said["convention"], ())} & names)
    return said["estimator"] in {CONVENTIONS[name].estimator for name in names if name in CONVENTIONS}


def _said(candidate: dict[str, Any], said: dict[str, Any]) -> dict[str, Any] | None:
    """The std's divisor or the ε that the header names, where the configured convention gives the numbers
    with another one."""
    name, _, value = (candidate["mistake"] or "").partition(":")
    name = NAMES.get(name, "")
    if candidate["convention"] != said["convention"] or name not in said["params"]:
        return None
    try:
        return {"name": name, "configured": said["params"][name], "recorded": float(value), "said": True}
    except ValueError:
        return None


def _free(candidate: dict[str, Any], said: dict[str, Any]) -> bool:
    """Whether all that is unlike the convention is a divisor or an ε that nobody says was another."""
    if not candidate["mistake"].startswith(SETTINGS):
        return False
    if said["framework"] is not None and said["convention"] is not None:
        return False
    return said["estimator"] in (None, CONVENTIONS[candidate["convention"]].estimator)


def _not_known(said: dict[str, Any]) -> str:
    """What the header names and Vantage does not know: a framework, an estimator, or keys."""
    named = said.get("unknown_framework") or said.get("unknown_estimator")
    return str(named or ", ".join(said.get("not_understood", ())))


def _fits(view: View, found: dict[str, Any], best: dict[str, Any], strange: str) -> Report:
    return report(
        view,
        "info",
        f"The header has {strange}, which Vantage does not know; the numbers fit {best['convention']} with "
        f"{best['mistake']}.",
        explanation=f"{best['explanation']} {STRANGE}",
        remedy="Nothing, if that is what the trainer does.",
        evidence=evidence(found, best, "mistake"),
        rollouts=_rows(view, found, best),
    )


def _set_otherwise(view: View, found: dict[str, Any], best: dict[str, Any]) -> Report:
    return report(
        view,
        "info",
        f"The recorded advantages are those of {best['convention']} but for one setting, "
        f"{best['mistake'].removeprefix('wrong_')}.",
        explanation=f"{best['explanation']} {SETTING}",
        remedy="Name the convention and its ε in the header if another was meant.",
        evidence=evidence(found, best, "setting"),
        rollouts=_rows(view, found, best),
    )


def _mistaken(view: View, found: dict[str, Any], best: dict[str, Any]) -> Report:
    proved = bool(best.get("proved", True))
    what = f"{best['convention']} with a mistake: {best['mistake']}"
    return report(
        view,
        "critical" if proved else "warning",
        f"The recorded advantages are those of {what}."
        if proved
        else f"The recorded advantages fit {what}; other readings are left.",
        explanation=f"{best['explanation']} {MISTAKE if proved else OPEN}",
        remedy="Correct the trainer, and compute the advantages of this batch anew before it is used again."
        if proved
        else "Check whether the trainer does this on purpose; then name it in the header.",
        evidence=evidence(found, best, "mistake"),
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
        evidence=evidence(found, best, "convention"),
        rollouts=_rows(view, found, best),
    )


def _rows(view: View, found: dict[str, Any], best: dict[str, Any]) -> Ints:
    """Rollouts whose advantages differ from what the nearest convention without a mistake gives."""
    right = [each for each in found["candidates"] if each["mistake"] is None and each["failing"]]
    own = [each for each in right if each["convention"] == best["convention"]]
    return places(view, (own or right)[0]["failing"]) if right else np.arange(view.rollouts)


FINDING = Finding(CODE, TITLE, check)
