"""Responses that ended by themselves, as far as the file says, but have no end token.

Looked for only where most rollouts of the batch (at least half of those that were not cut off) do end with
an end token, as otherwise it is simply not recorded, or the response ends at a stop text. An end token is
what the header's `eos_token_id` or its text (`<|im_end|>`, `</s>`, …) says. A rollout is named when it has
none at its end and

* the file says that it was not cut off (`truncated` false or a finish reason other than "length"), or
* its trainable tokens run into padding, whatever is said of it: that is what a missing end token does.

warning where that is at least one in ten rollouts, or where padding is trained on because of it; info
otherwise.

Seen as: a mask helper that finds no end token and takes the whole padded row for the response (verl#3805);
an inserted end token without a log-prob; models that never learn to stop, as the token that stops is cut off
before training (AReaL#1346, trl#1893, OpenRLHF#1239).

Remedy: keep the end token in the response and in the mask, or set `truncated`; find the end by length.

Evidence: `without_end_token`, `rollouts`, `with_end_token`, `said_to_have_stopped`, `running_into_padding`.
"""

from typing import Any

import numpy as np

from app.findings.finding import Finding, Severity, report
from app.findings.part import Part
from app.findings.special_tokens import content, ends, padding
from app.findings.view import View
from app.formatting import plural

MANY = 0.1
USUAL = 0.5


def begin(view: View) -> dict[str, Any]:
    no = np.zeros(view.rollouts, dtype=bool)
    return {"header": view.header, "ended": no, "seen": no.copy(), "into_padding": no.copy()}


def observe(part: Part, state: dict[str, Any]) -> None:
    if not {"response_ids", "response_tokens"} & part.names:
        return
    header = state["header"]
    some = part.lengths > 0
    length = content(part, header)
    final = np.where(length > 0, part.starts + length - 1, 0)[some]
    state["ended"][part.rows][some] = ends(part, header)[final]
    state["seen"][part.rows] = some & (part.has("response_ids") | part.has("response_token_sizes"))
    if "response_mask" in part.names:
        state["into_padding"][part.rows] = part.count(padding(part, header) & part.mask) > 0


def check(view: View) -> dict[str, Any] | None:
    state = view.facts["missing_eos"]
    live = state["seen"] & (view.valid != 0)
    ended = state["ended"] & live
    open_ended = live & ~state["ended"]
    stopped = open_ended & (view.truncated == 0)
    into = open_ended & state["into_padding"]
    whole = live & (view.truncated != 1)
    if 2 * int(ended.sum()) < int((whole | into | ended).sum()) or not ended.any():
        return None
    found = np.flatnonzero(stopped | into)
    if not found.size:
        return None
    padded = int(into.sum())
    severity: Severity = "warning" if into.any() or found.size >= MANY * view.rollouts else "info"
    return report(
        view,
        severity,
        f"{found.size} of {plural(view.rollouts, 'rollout')} {'has' if found.size == 1 else 'have'} no end "
        f"token, where {int(ended.sum())} {'ends' if ended.sum() == 1 else 'end'} with one"
        + (f"; in {padded} of them the padding behind is trained on." if padded else "."),
        explanation="Whoever looks for the end token to find where a response stops finds none and takes the "
        "padding for response; and a model whose end token is cut off never learns to stop.",
        remedy="Keep the end token in the response and in the mask, mark what was cut off by the length "
        "limit as truncated, and find the end of a response by its length.",
        evidence={
            "without_end_token": found.size,
            "rollouts": view.rollouts,
            "with_end_token": int(ended.sum()),
            "said_to_have_stopped": int(stopped.sum()),
            "running_into_padding": padded,
        },
        groups=np.unique(view.group[found]) if view.grouped else (),
        rollouts=found,
    )


FINDING = Finding("missing_eos", "Responses without an end token", check, observe, begin)
