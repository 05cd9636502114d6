"""What is untrue about a correct batch."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch

from estimators import Request, estimate
from tests.truth.facts import TRUE, constant, never, per_token
from tests.truth.making import Made, batch_from
from tests.truth.storing import Said

#: How far numbers of one formula may be off, of the largest, as float64 or seven decimals, and as float32,
#: which holds a reward to 6e-8 of its size: the std of a group makes more of it.
CLOSE, LOOSE = 1e-5, 1e-2

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
    return Judged("right" if verdict == "match" else "open" if verdict == "ambiguous" else "silent", ())


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
    if not gives(batch, top["request"]):
        return [f"verdict {top['convention']}, whose numbers are others: {top['request']}"]
    return []


def gives(batch: Made, body: Mapping[str, Any]) -> bool:
    """Whether the request gives the numbers of the batch, as exactly as they were computed and written."""
    rows = batch_from(batch.rows)
    given = torch.tensor([x for each in per_token(batch) for x in each], dtype=torch.float64)
    narrow = batch.written == "float32"
    equal = constant(batch) if narrow else set()
    told = torch.tensor([row["group_id"] not in equal for row in batch.rows])
    kept = rows.response_mask & torch.isfinite(given) & told.repeat_interleave(rows.lengths)
    scale = float(given[kept].abs().max()) if bool(kept.any()) else 0.0
    allowed = (LOOSE if narrow else CLOSE) * scale + 1e-7
    for precision in ("float32", "float64") if narrow else ("float64",):
        result = estimate(rows, Request.from_dict({**body, "precision": precision}))
        found = result.advantages.double().nan_to_num(0.0)
        found = found if result.per_token else found.repeat_interleave(rows.lengths)
        if bool(((found - given)[kept].abs() <= allowed).all()):
            return True
    return False


def _of_findings(batch: Made, said: Said) -> list[str]:
    return [
        f"{each['severity']} {each['code']}: {each['title']}"
        for each in said.findings
        if not TRUE.get(each["code"], never)(batch, each)
    ]
