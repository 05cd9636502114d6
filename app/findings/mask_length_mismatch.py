"""The mask has another number of values than the response has tokens.

The reader cannot know which token a value belongs to: it leaves the mask out of such a row (or, where only
the mask says how long the response is, the other field), and lists the row. This is said of the batch:
without a mask every token of these rollouts counts as trainable, also padding and tool output.

* critical: at least a tenth of the rollouts are concerned; warning otherwise.

Log-probabilities of another length than the response are `log_prob_length_mismatch`.

Seen as: shape errors between collator and loss; tokens that are trained on although a tool wrote them; masks
that were cut, padded or shifted by the prompt's length (slime#1370, miles#1383, verl#6392, TRL#4976,
rllm#816).

Remedy: record one mask value per response token, or the whole padded width in every field, and say in the
header that arrays cover the prompt as well where they do (`"alignment": "sequence"`).

Evidence: `rollouts`, `without_mask`, `fields` (field -> how many rows), `difference` (values − tokens -> how
many rows, as far as the reader's sentences say), `first_rows` of the file.
"""

import re
from collections import Counter
from typing import Any

import numpy as np

from app.findings.finding import Finding, report
from app.findings.view import Said, View
from app.formatting import percent, plural, signed

MASK = "response_mask"
#: The reader's sentence: "row 3: response_mask has 5 values, response_ids has 7; left out …".
SIZES = re.compile(r"(\w+) has (\d+) values?, (\w+) has (\d+)")
SHARE = 0.1
SHOWN = 8
ELSEWHERE = ("old_log_probs", "ref_log_probs", "rollout_log_probs")


def check(view: View) -> dict[str, Any] | None:
    said = [each for each in view.problems if each.code == "length_mismatch" and _about_mask(each)]
    if not said:
        return None
    places = np.unique([each.place for each in said if each.place >= 0]).astype(np.int64)
    rows = len({each.row for each in said})
    unmasked = int((view.valid[places] < 0).sum())
    gaps = Counter(gap for each in said if (gap := _gap(each)) is not None)
    share = rows / max(view.rollouts, 1)
    usual = f" ({signed(gaps.most_common(1)[0][0])} values in {gaps.most_common(1)[0][1]})" if gaps else ""
    return report(
        view,
        "critical" if share >= SHARE else "warning",
        f"In {rows} of {plural(view.rollouts, 'rollout')} ({percent(share)}) the mask is not as long as the "
        f"response{usual}"
        + (f"; {unmasked} of them {'has' if unmasked == 1 else 'have'} no mask now." if unmasked else "."),
        explanation="Which token a value of the mask belongs to is not known. Where a trainer pads, cuts or "
        "shifts it instead of refusing, tool output or padding is trained on and the policy's own tokens "
        "are not.",
        remedy="Record one mask value per response token, end token included or left out in every field "
        "alike; where arrays cover the prompt as well, say so in the header.",
        evidence={
            "rollouts": rows,
            "without_mask": unmasked,
            "fields": dict(Counter(str(each.field) for each in said)),
            "difference": {signed(gap): count for gap, count in gaps.items()},
            "first_rows": sorted({each.row for each in said if each.row is not None})[:SHOWN],
        },
        groups=np.unique(view.group[places]) if view.grouped else (),
        rollouts=places,
    )


def _about_mask(said: Said) -> bool:
    if said.field == MASK:
        return True
    sizes = SIZES.search(said.message)
    return sizes is not None and sizes[3] == MASK and said.field not in ELSEWHERE


def _gap(said: Said) -> int | None:
    """Values of the mask − tokens; of the other field − mask where the mask was what counts."""
    sizes = SIZES.search(said.message)
    return None if sizes is None else int(sizes[2]) - int(sizes[4])


FINDING = Finding("mask_length_mismatch", "A mask of another length than the response", check)
