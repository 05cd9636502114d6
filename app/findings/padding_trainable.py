"""Padding has mask 1: the trainer learns to produce pad tokens, and counts them.

Padding is a token that the header's `pad_token_id` or its text (`<pad>`, `[PAD]`, …) says is padding, or an
end token that only follows another one at the end of the response: `a <eos> <eos> <eos>` is two tokens and
padding. A single padding token is named: nothing of a healthy batch has mask 1 on one.

* critical: at least 10 % of the batch's trainable tokens are padding; warning otherwise.

Group advantages stay the same; the weight of every token in a token mean, and any whitening over tokens,
does not.

Seen as: a mask helper that looks for the first end token and returns all ones where there is none
(verl#3805); response lengths that are all the padded width, token means that fall as the width grows, a
model that forgets to stop (miles#1383, alpaca-rlhf#9, AReaL#1346).

Remedy: build the mask from the lengths (or the attention mask), not from the first end token.

Evidence: `tokens`, `rollouts`, `trainable_tokens` and `without_padding` (of the batch), `share`,
`rollouts_without_end_token`, `places` (index -> first and last padding token of up to 8 rollouts).
"""

from typing import Any

import numpy as np

from app.findings.finding import Finding, Severity, report
from app.findings.part import Part
from app.findings.special_tokens import ends, padding
from app.findings.view import View
from app.formatting import percent, plural

LARGE = 0.1
SHOWN = 8


def begin(view: View) -> dict[str, Any]:
    zero = np.zeros(view.rollouts, dtype=np.int64)
    return {
        "header": view.header,
        "padding": zero,
        "trainable": zero.copy(),
        "first": zero.copy(),
        "last": zero.copy(),
        "ended": np.zeros(view.rollouts, dtype=bool),
    }


def observe(part: Part, state: dict[str, Any]) -> None:
    state["trainable"][part.rows] = part.count(part.mask & part.has_token("response_mask"))
    if "response_mask" not in part.names:
        return
    wrong = padding(part, state["header"]) & part.mask & part.has_token("response_mask")
    if not wrong.any():
        return
    state["padding"][part.rows] = part.count(wrong)
    state["first"][part.rows] = part.first(wrong) - part.starts
    state["last"][part.rows] = part.last(wrong) - part.starts
    state["ended"][part.rows] = part.count(ends(part, state["header"])) > 0


def check(view: View) -> dict[str, Any] | None:
    state = view.facts["padding_trainable"]
    found = np.flatnonzero(state["padding"])
    if not found.size:
        return None
    tokens, trainable = int(state["padding"].sum()), int(state["trainable"].sum())
    endless = int((~state["ended"][found]).sum())
    severity: Severity = "critical" if tokens >= LARGE * trainable else "warning"
    places = {
        str(int(view.index[at])): [int(state["first"][at]), int(state["last"][at])]
        for at in found[:SHOWN].tolist()
    }
    (index, (first, last)), *_ = places.items()
    where = f"position {first}" if first == last else f"positions {first} to {last}"
    return report(
        view,
        severity,
        f"{tokens} of {plural(trainable, 'trainable token')} ({percent(tokens / trainable)}) "
        f"{'is' if tokens == 1 else 'are'} padding, in {plural(found.size, 'rollout')} (rollout {index}: "
        f"{where})"
        + (f"; {endless} of these {'has' if endless == 1 else 'have'} no end token." if endless else "."),
        explanation="The loss teaches padding, a mean over tokens is diluted by it, and whitening over "
        "tokens counts each pad as a value. Group advantages alone do not show it.",
        remedy="Build the mask from response lengths or the attention mask; a helper that looks for the "
        "first end token must not return all ones where there is none.",
        evidence={
            "tokens": tokens,
            "rollouts": found.size,
            "trainable_tokens": trainable,
            "without_padding": trainable - tokens,
            "share": tokens / trainable,
            "rollouts_without_end_token": endless,
            "places": places,
        },
        groups=np.unique(view.group[found]) if view.grouped else (),
        rollouts=found,
    )


FINDING = Finding("padding_trainable", "Padding is trained on", check, observe, begin)
