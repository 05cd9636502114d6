"""Log-probabilities with another number of values than the response has tokens.

The reader leaves such a field out of the row, as it cannot know which token a value belongs to, and lists
the row. This is said of the batch: without the field there are no ratios and no KL for these rollouts, and
in a trainer that cuts or pads instead, every value stands beside another token.

* critical: at least half of the batch's rollouts are concerned; warning otherwise.

Seen as: shape errors between sampler and trainer, or ratios that are random from some token on (rllm#816,
vime#70, slime#1968).

Remedy: record one value per response token: the end token included or left out in both, observation tokens
with a placeholder that the mask covers, prompt tokens in neither.

Evidence: `fields` by field: `rollouts`, and `difference` (values − tokens) → how many rollouts.
"""

import re
from typing import Any

import numpy as np

from app.findings.finding import Finding, report
from app.findings.positive_log_probs import FIELDS
from app.findings.view import Said, View
from app.formatting import number, plural, signed

SIZES = re.compile(r" has (\d+) values?, .* (?:has|have) (\d+)")


def check(view: View) -> dict[str, Any] | None:
    said = [each for each in view.problems if each.code == "length_mismatch" and each.field in FIELDS]
    if not said:
        return None
    by_field: dict[str, list[Said]] = {}
    for each in said:
        by_field.setdefault(str(each.field), []).append(each)
    rows = np.unique([each.place for each in said if each.place >= 0]).astype(np.int64)
    name = max(by_field, key=lambda field: len(by_field[field]))
    gaps = {field: _differences(found) for field, found in by_field.items()}
    usual = max(gaps[name], key=lambda gap: gaps[name][gap], default=None)
    count = len(by_field[name])
    how = ""
    if usual is not None:
        way = "more" if usual > 0 else "fewer"
        every = "in each" if gaps[name][usual] == count else f"in {gaps[name][usual]}"
        how = f": {number(abs(usual))} {way} than the response has tokens {every}"
    return report(
        view,
        "critical" if 2 * rows.size >= view.rollouts else "warning",
        f"{name} of {plural(count, 'rollout')} has another length than the response{how}.",
        explanation="Which token a value belongs to is not known, so the field was left out of these "
        "rollouts: they have no ratio and no KL here. A trainer that pads or cuts instead compares every "
        "token with the number of another one.",
        remedy="Record one value per response token: the end token in both or in neither, a masked "
        "placeholder for observation tokens, and no prompt tokens.",
        evidence={
            "fields": {
                field: {
                    "rollouts": len(found),
                    "difference": {signed(gap): times for gap, times in gaps[field].items()},
                }
                for field, found in by_field.items()
            }
        },
        rollouts=rows,
    )


def _differences(said: list[Said]) -> dict[int, int]:
    """Values − tokens -> how many rollouts, as far as the sentences say it."""
    found: dict[int, int] = {}
    for each in said:
        if (sizes := SIZES.search(each.message)) is not None:
            gap = int(sizes[1]) - int(sizes[2])
            found[gap] = found.get(gap, 0) + 1
    return found


FINDING = Finding("log_prob_length_mismatch", "Log-probs as long as another response", check)
