"""Reproducers: the fewest rollouts and tokens of a batch that still show a finding, or a reconciliation's
verdict, as canonical JSONL to paste into a bug report. Loading it back shows the same.

The search is delta debugging over groups, then rollouts, then tokens: each try is read, stored and checked as
an upload of these rows would be.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from app.errors import Busy, NotFound, Unprocessable
from app.findings import recorded_advantages_disagree
from app.recorded_rows import Row
from app.replay import Replay
from app.settings import Settings
from app.shrinking import Reproducer, Start, shrink
from storage.database import AnySession
from storage.models import Analysis, Batch

#: Entries of an evidence that say what kind of proof it is.
WORDS = ("kind", "by", "recorded", "scope", "dtype", "divided", "component", "field")
#: Reproducers that are kept; a ready batch never changes.
KEPT = 64
#: Seconds that a request waits for those before it.
PATIENCE = 30.0
_kept: OrderedDict[tuple[Any, ...], Reproducer] = OrderedDict()
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

    def looked(place: Replay, header: Mapping[str, Any], rows: Sequence[Row], name: str) -> bool:
        found = place.findings(header, rows, name, code == recorded_advantages_disagree.CODE)
        return any(said["code"] == code and _alike(said, report) for said in found)

    start = Start(session, batch, report["rollouts"], report["groups"], code)
    return once((batch.id, code, texts), lambda: shrink(start, settings, looked, texts))


def _alike(said: dict[str, Any], report: dict[str, Any]) -> bool:
    """By the same proof. Of recorded advantages: the same mistake, or none in both."""
    if said["code"] != recorded_advantages_disagree.CODE:
        return proof_of(said) == proof_of(report)
    mistakes = [str(each["evidence"].get("mistake")).partition(":")[0] for each in (said, report)]
    return mistakes[0] == mistakes[1] and said["evidence"]["verdict"] == report["evidence"]["verdict"]


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

    def looked(place: Replay, header: Mapping[str, Any], rows: Sequence[Row], name: str) -> bool:
        found = place.reconciliation(header, rows, name)
        if found["verdict"] != result["verdict"]:
            return False
        first = (found["candidates"] or [None])[0]
        if best is None or first is None or not best["matched"]:
            return True
        names = {first["convention"], *first["same_as"]}
        return first["mistake"] == best["mistake"] and best["convention"] in names

    failing = [] if best is None else best["failing"]
    start = Start(session, batch, failing, [], result["verdict"])
    key = (analysis.id, str(analysis.revision), texts)
    return once(key, lambda: shrink(start, settings, looked, texts))


def once(key: tuple[Any, ...], make: Callable[[], Reproducer]) -> Reproducer:
    """What was made under this key before, else what `make` gives now. One at a time, as each fills a core.
    Raises Busy."""
    if not _one_at_a_time.acquire(timeout=PATIENCE):
        raise Busy("Other reproducers are being made. Ask again in half a minute.")
    try:
        if key not in _kept:
            _kept[key] = make()
            if len(_kept) > KEPT:
                _kept.popitem(last=False)
        return _kept[key]
    finally:
        _one_at_a_time.release()
