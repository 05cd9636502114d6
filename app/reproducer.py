"""Reproducers: the fewest rollouts and tokens of a batch that still show a finding, or a reconciliation's
verdict, as canonical JSONL to paste into a bug report. Loading it back shows the same.

The search is delta debugging over groups, then rollouts, then tokens: each try is read, stored and checked as
an upload of these rows would be.
"""

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from app.errors import Busy, NotFound, Unprocessable
from app.findings import recorded_advantages_disagree, recorded_advantages_unchecked
from app.findings.finding import SEVERITIES
from app.recorded_rows import Row
from app.replay import Made, Replay
from app.settings import Settings
from app.shrinking import Reproducer, Shows, Start, shrink
from storage.database import AnySession
from storage.kept import Kept
from storage.models import Analysis, Batch

#: Entries of an evidence that say what kind of proof it is.
WORDS = ("kind", "by", "recorded", "scope", "dtype", "divided", "component", "field")
#: Reproducers that are kept; a ready batch never changes.
KEPT = 64
#: Seconds that a request waits for those before it.
PATIENCE = 30.0
_kept: Kept[tuple[Any, ...], Reproducer] = Kept(KEPT)
_one_at_a_time = threading.Lock()


def of_finding(
    session: AnySession, settings: Settings, batch: Batch, code: str, texts: bool = False
) -> Reproducer:
    """The reproducer of a finding of the batch. Raises NotFound, Unprocessable."""
    reports = [said for said in batch.findings if said["code"] == code]
    if not reports:
        there = ", ".join(batch.codes) or "none"
        raise NotFound(f"The batch has no finding {code!r}. It has: {there}.")
    report = reports[0]
    disagrees = code == recorded_advantages_disagree.CODE
    reconciled = disagrees or code == recorded_advantages_unchecked.CODE
    made = _made(report["evidence"], report["evidence"].get("verdict") != "no_match") if disagrees else None

    def looked(least: int) -> Shows:
        """Whether rows show it, no less grave than the severity at this place."""

        def shows(place: Replay, header: Mapping[str, Any], rows: Sequence[Row], name: str) -> bool:
            found = place.findings(header, rows, name, reconciled, made)
            same = [said for said in found if said["code"] == code and _alike(said, report)]
            return any(SEVERITIES.index(said["severity"]) <= least for said in same)

        return shows

    start = Start(session, batch, report["rollouts"], report["groups"], code)

    def search() -> Reproducer:
        try:
            return shrink(start, settings, looked(SEVERITIES.index(report["severity"])), texts)
        except Unprocessable:  # so grave only among the others, or in the file as it was uploaded
            return shrink(start, settings, looked(len(SEVERITIES)), texts)

    return once((batch.id, code, texts), search)


def _made(best: Mapping[str, Any], matched: bool) -> Made | None:
    """What a reconciliation found, if it found something."""
    return (best["convention"], best["mistake"]) if matched else None


def _alike(said: dict[str, Any], report: dict[str, Any]) -> bool:
    """By the same proof. Of recorded advantages: the same mistake, or none in both, and of the same kind."""
    if said["code"] != recorded_advantages_disagree.CODE:
        return proof_of(said) == proof_of(report)
    mistakes = [str(each["evidence"].get("mistake")).partition(":")[0] for each in (said, report)]
    same = all(said["evidence"].get(name) == report["evidence"].get(name) for name in ("verdict", "kind"))
    return mistakes[0] == mistakes[1] and same


def proof_of(report: Mapping[str, Any]) -> dict[str, Any]:
    """By what a finding shows: the words among its evidence, and whether a discount was read off."""
    evidence = report["evidence"]
    words = {name: evidence[name] for name in WORDS if isinstance(evidence.get(name), str | bool)}
    return words | {"attenuation": "attenuation" in evidence}


def of_analysis(
    session: AnySession, settings: Settings, batch: Batch, analysis: Analysis, texts: bool = False
) -> Reproducer:
    """The reproducer of a reconciliation's verdict. Raises Unprocessable."""
    result = analysis.result
    if analysis.kind != "reconcile" or result is None:
        raise Unprocessable("Only a reconciliation that has succeeded has a reproducer.")
    best = (result["candidates"] or [None])[0]
    made = None if best is None else _made(best, best["matched"])

    def looked(place: Replay, header: Mapping[str, Any], rows: Sequence[Row], name: str) -> bool:
        found = place.reconciliation(header, rows, name, made)
        return found is not None and _same(found, result)

    failing = [] if best is None else best["failing"]
    start = Start(session, batch, failing, [], result["verdict"])
    key = (analysis.id, str(analysis.revision), texts)
    return once(key, lambda: shrink(start, settings, looked, texts))


def _same(found: Mapping[str, Any], result: Mapping[str, Any]) -> bool:
    """Whether it is the same verdict by the same candidate; where it needs no mistake, with each that agrees
    beside it. Of `no_match`: the same is nearest, where it is near at all."""
    if found["verdict"] != result["verdict"] or not result["candidates"]:
        return bool(found["verdict"] == result["verdict"])
    best = result["candidates"][0]
    if not best["matched"] and 2 * best["rollouts_matched"] < best["rollouts"]:
        return True
    first = (found["candidates"] or [None])[0]
    if first is None or first["mistake"] != best["mistake"] or not first["rollouts_matched"]:
        return False
    named = best["convention"] in {first["convention"], *first["same_as"]}
    return named and (best["mistake"] is not None or _mistakes(result) <= _mistakes(found))


def _mistakes(result: Mapping[str, Any]) -> set[str]:
    return {each["mistake"] for each in result["candidates"] if each["matched"] and each["mistake"]}


def once(key: tuple[Any, ...], make: Callable[[], Reproducer]) -> Reproducer:
    """What was made under this key before, else what `make` gives now. One at a time, as each fills a core.
    Raises Busy."""
    if not _one_at_a_time.acquire(timeout=PATIENCE):
        raise Busy("Other reproducers are being made. Ask again in half a minute.")
    try:
        return _kept.get(key, make)
    finally:
        _one_at_a_time.release()
