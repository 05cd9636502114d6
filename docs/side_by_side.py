"""The page of estimators: formula, paper, needs, and every convention on one example side by side."""

from dataclasses import fields
from typing import Any

import torch

from estimators import (
    CONVENTIONS,
    ESTIMATORS,
    Batch,
    Convention,
    Refused,
    Request,
    Whitening,
    estimate,
    missing,
)

#: Three prompts, four responses each: two right of four; all alike; mixed signs.
SCORES = ((1.0, 0.0, 0.0, 1.0), (0.25, 0.25, 0.25, 0.25), (2.0, -1.0, 0.5, 0.0))
#: Tokens of the responses, all unmasked: they decide where whitening goes over tokens.
LENGTHS = ((6, 3, 2, 6), (4, 3, 2, 1), (5, 6, 2, 1))
INTRODUCTION = """# Estimators side by side

Every convention on the same twelve rollouts: three prompts with the rewards 1 0 0 1, 0.25 0.25 0.25 0.25 and
2 −1 0.5 0, of 6 3 2 6, 4 3 2 1 and 5 6 2 1 tokens. The two numbers are the advantages of the first
response to the first prompt and of the first response to the last one, on its first token. A dash: the
convention needs
more than rewards. What it reads where masked tokens, groups of one or missing scores come in is in
[the reference](reference/estimators.md), every parameter in [the conventions](reference/conventions.md).
"""


def example() -> Batch:
    """The twelve rollouts."""
    lengths = torch.tensor([length for group in LENGTHS for length in group])
    return Batch(
        offsets=torch.nn.functional.pad(torch.cumsum(lengths, 0), (1, 0)),
        response_mask=torch.ones(int(lengths.sum()), dtype=torch.bool),
        group=torch.arange(12) // 4,
        scores=torch.tensor([score for group in SCORES for score in group], dtype=torch.float64),
    )


def first_of(convention: str) -> tuple[float, float] | str:
    """The advantages of the first rollout of the first and of the last prompt, or why there are none."""
    batch, request = example(), Request.from_dict({"convention": convention})
    if missing(batch, request):
        return "–"
    try:
        found = estimate(batch, request)
    except Refused:
        return "refused"
    first, last = (0, int(batch.offsets[8])) if found.per_token else (0, 8)
    return float(found.advantages[first]), float(found.advantages[last])


def differing(convention: Convention) -> str:
    """The settings in which the convention is not the estimator's default."""
    told = _told(convention.params, ESTIMATORS[convention.estimator].params())
    told += [f"whitening {text}" for text in _told(convention.whitening, Whitening())]
    if convention.grouping != "group_id":
        told.append(f"grouping `{convention.grouping}`")
    return ", ".join(told) or "the defaults"


def _told(settings: Any, start: Any) -> list[str]:
    pairs = [
        (each.name, getattr(settings, each.name), getattr(start, each.name)) for each in fields(settings)
    ]
    return [f"`{name}` {value}" for name, value, usual in pairs if value != usual]


def estimators_page() -> str:
    out = [INTRODUCTION]
    for name, estimator in ESTIMATORS.items():
        out += [
            f"\n## {name}\n",
            f"{estimator.sentence}\n\n    {estimator.formula}\n",
            f"Paper: <{estimator.paper}>. Needs: {', '.join(estimator.needs)}.\n",
            "| convention | agrees with | first prompt | last prompt | differs in |",
            "|---|---|---|---|---|",
        ]
        own = [each for each in CONVENTIONS.values() if each.estimator == name]
        out += [_row(each) for each in own]
    return "\n".join(out)


def _row(convention: Convention) -> str:
    found = first_of(convention.name)
    shown = (found, found) if isinstance(found, str) else tuple(f"{value:.5f}" for value in found)
    agrees = f"{convention.framework} {convention.version}" if convention.framework else "–"
    return f"| `{convention.name}` | {agrees} | {shown[0]} | {shown[1]} | {differing(convention)} |"
