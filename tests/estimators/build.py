"""Batches for the tests of the estimators, from padded lists as frameworks have them."""

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from estimators import ROLLOUT_FIELDS, Batch, factorize

Rows = Sequence[Sequence[float]]


def flat(rows: Rows) -> Tensor:
    """Rows end to end, `[N]` float64."""
    return torch.tensor([float(value) for row in rows for value in row], dtype=torch.float64)


def offsets_of(lengths: Sequence[int]) -> Tensor:
    return torch.tensor([0, *lengths], dtype=torch.int64).cumsum(0)


def batch_of(
    mask: Rows,
    group: Sequence[Hashable] | None = None,
    scores: Sequence[float | None] | None = None,
    components: Mapping[str, Sequence[float | None]] | None = None,
    **more: Sequence[Any] | None,
) -> Batch:
    """A batch whose rollouts are as wide as their rows of `mask`; masked positions keep what is given.

    `more`: token fields as rows, and `ROLLOUT_FIELDS` as one entry per rollout.
    """
    count = len(mask)
    numbers = [*range(count)] if group is None else group
    fields: dict[str, Any] = {
        name: None if given is None else _column(name, given) if name in ROLLOUT_FIELDS else flat(given)
        for name, given in more.items()
    }
    if more.get("data_source") is not None:
        fields["tasks"] = tuple(map(str, factorize(more["data_source"] or ())[1]))
    return Batch(
        offsets=offsets_of([len(row) for row in mask]),
        response_mask=flat(mask).bool(),
        group=factorize(numbers)[0],
        scores=_numbers(scores if scores is not None else [None] * count),
        components={name: _numbers(column) for name, column in (components or {}).items()},
        **fields,
    )


def _numbers(values: Sequence[float | None]) -> Tensor:
    return torch.tensor([float("nan") if v is None else float(v) for v in values], dtype=torch.float64)


def _column(name: str, given: Sequence[Any]) -> Tensor:
    """A field of the rollouts as the batch has it."""
    if name in ("reward_baseline", "bootstrap_value"):
        return _numbers(given)
    if name in ("truncated", "terminated", "reward_nan"):
        return torch.tensor([bool(value) for value in given])
    if name in ("index", "segment", "prompt_length"):
        return torch.tensor(given, dtype=torch.int64)
    return factorize(given)[0]
