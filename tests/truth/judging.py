"""What is untrue about a correct batch."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from estimators import CONVENTIONS
from tests.truth.facts import TRUE, never
from tests.truth.making import Made
from tests.truth.storing import Said

Outcome = Literal["right", "open", "silent", "wrong"]


@dataclass(frozen=True, slots=True)
class Judged:
    """right: one convention named, and it is the one; open: several that fit, it among them; silent: nothing
    named, nobody accused; wrong: `untrue` says what was said."""

    outcome: Outcome
    untrue: tuple[str, ...]


def judged(batch: Made, said: Said) -> Judged:
    untrue = [*_of_verdict(batch, said.verdict), *_of_findings(batch, said)]
    if untrue:
        return Judged("wrong", tuple(untrue))
    verdict = said.verdict["verdict"]
    return Judged({"match": "right", "ambiguous": "open"}.get(verdict, "silent"), ())  # type: ignore[arg-type]


def _of_verdict(batch: Made, verdict: Mapping[str, Any]) -> list[str]:
    if verdict["verdict"] == "nothing_recorded":
        return []
    matched = [each for each in verdict["candidates"] if each["matched"]]
    if verdict["verdict"] == "no_match":
        first: Mapping[str, Any] = next(iter(verdict["candidates"]), {})
        near = f"{first.get('convention')} {first.get('mistake')} off {first.get('max_abs_error')}"
        return [f"verdict no_match, nearest {near}"] if batch.told == "all" else []
    top = matched[0]
    if top["mistake"] is not None:
        return [f"verdict {top['convention']} with {top['mistake']}"]
    names = {name for each in matched if each["mistake"] is None for name in _names(each)}
    if batch.told == "all" and batch.convention not in names:
        return [f"verdict {top['convention']}, not {batch.convention} as the header says"]
    return []


def _names(candidate: Mapping[str, Any]) -> set[str]:
    return {candidate["convention"], *candidate["same_as"]} & CONVENTIONS.keys()


def _of_findings(batch: Made, said: Said) -> list[str]:
    return [
        f"{each['severity']} {each['code']}: {each['title']}"
        for each in said.findings
        if not TRUE.get(each["code"], never)(batch, each)
    ]
