"""Recorded advantages that the configured convention gives with another setting than the header names."""

from typing import Any

from app.findings.finding import Report, report
from app.findings.unexplained import SYMBOLS, places, shown
from app.findings.view import View
from app.formatting import number, plural

WHY = (
    "Nothing else of the configuration has to change to get these numbers, so it is the setting: the trainer "
    "was started with another value, overrides it, or does not read the key."
)
#: What an error may be, relative to the size of the numbers, by the precision of the file.
FLOORS = {"bfloat16": 2.0**-8, "float16": 2.0**-10, "float32": 2.0**-20, "float64": 2.0**-20}


def contradicted(view: View, found: dict[str, Any], best: dict[str, Any]) -> Report | None:
    """The report on numbers that `best`, the configured convention, gives with other settings; None where
    those that were configured give them, too."""
    apart = found.get("difference")
    if apart is not None and apart["off"] == 0:
        return None
    settings = [each | _uncertainty(each, found) for each in best["contradicts"]]
    parts = [
        f"{_name(each['name'])} {shown(each['recorded'])} "
        f"({'the file says' if each['said'] else 'its own is'} {shown(each['configured'])})"
        for each in settings
    ]
    far = ""
    if apart is not None:
        token = "" if apart["token"] is None else f", token {apart['token']}"
        far = (
            f" As configured they would differ in {plural(apart['rollouts_off'], 'rollout')}, by up to "
            f"{number(apart['max_abs_error'])} in rollout {apart['rollout']}{token}."
        )
    return report(
        view,
        "warning" if any(each["said"] for each in settings) else "info",
        f"The recorded advantages are those of {best['convention']}, but made with {' and '.join(parts)}.",
        explanation=f"{best['explanation']}{far} {WHY}",
        remedy="Check which value the run used: correct the configuration, or the header.",
        evidence=evidence(found, best, "setting") | {"contradicts": settings},
        rollouts=places(view, apart["failing"] if apart is not None else list(view.index)),
    )


def evidence(found: dict[str, Any], best: dict[str, Any], kind: str) -> dict[str, Any]:
    """What a report on a candidate shows of it. `kind`: what sort of disagreement it is."""
    said = found["configured"]
    same = ("convention", "mistake", "whitening", "max_abs_error", "p99_abs_error")
    return {
        "kind": kind,
        "recorded": found["recorded"],
        "verdict": found["verdict"],
        **{name: best[name] for name in (*same, "rollouts_matched", "rollouts")},
        "proved": bool(best.get("proved", best["mistake"] is not None)),
        "precision": found["precision"],
        "configured": said["convention"] or said["estimator"],
        "params": said["params"],
    }


def _name(name: str) -> str:
    return SYMBOLS.get(name, name.replace("whitening.", "whitening "))


def _uncertainty(setting: dict[str, Any], found: dict[str, Any]) -> dict[str, float]:
    """How far a number that was read off may be from the one that was used, as the precision of the recorded
    advantages allows: by the secant from the configured value, which makes them `max_abs_error` off."""
    apart, values = found.get("difference"), (setting["configured"], setting["recorded"])
    if apart is None or not all(isinstance(v, int | float) and not isinstance(v, bool) for v in values):
        return {}
    if not apart["max_abs_error"]:
        return {}
    floor = FLOORS.get(found["precision"], 2.0**-20) * apart["scale"]
    if found["precision"].startswith("decimals:"):
        floor = 0.5 * 10.0 ** -int(found["precision"].partition(":")[2])
    return {"uncertainty": abs(values[0] - values[1]) * floor / apart["max_abs_error"]}
