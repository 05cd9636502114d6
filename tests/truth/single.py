"""Group estimators in float32, by the operations that the frameworks call."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from estimators import Request
from tests.truth.shapes import Row


def _verl(own: Tensor, divided: bool) -> Tensor:
    """One group at a time, as a stack of scalars."""
    if own.numel() == 1:
        return own / (1 + 1e-6) if divided else own
    mean, std = torch.mean(own), torch.std(own)
    return (own - mean) / (std + 1e-6) if divided else own - mean


def _by_rows(own: Tensor, epsilon: float | None, ddof: int = 1) -> Tensor:
    """As one row of a matrix of groups."""
    row = own.view(1, -1)
    centred = row - row.mean(dim=1, keepdim=True)
    if epsilon is None:
        return centred.view(-1)
    return (centred / (row.std(dim=1, keepdim=True, correction=ddof) + epsilon)).view(-1)


def _nemo(own: Tensor, leave_one_out: bool) -> Tensor:
    """NeMo-RL's baselines by a product of matrices, and E[x²] − E[x]² for the std."""
    count = own.numel()
    if count == 1:
        return torch.zeros_like(own)
    matrix = torch.ones(count, count) - (torch.eye(count) if leave_one_out else 0)
    others = torch.tensor(float(count - leave_one_out))
    mean = matrix @ own / others
    squares = matrix @ own.square() / others
    std = ((squares - mean.square()) * (others / (others - 1))).sqrt().nan_to_num(0.0)
    centred = own - mean
    return torch.where(std > 0, centred / (std + 1e-6), centred)


def _rloo(own: Tensor, raw: bool) -> Tensor:
    count = own.numel()
    if count == 1:
        return own if raw else torch.zeros_like(own)
    return own * count / (count - 1) - own.mean() * count / (count - 1)


def _of_group(name: str, own: Tensor) -> Tensor | None:
    alone = torch.zeros_like(own) if own.numel() == 1 else None
    match name:
        case "grpo/verl" | "grpo/skyrl":
            return _verl(own, divided=True)
        case "dr_grpo/verl" | "dr_grpo/skyrl":
            return _verl(own, divided=False)
        case "grpo/trl-group":
            return alone if alone is not None else _by_rows(own, 1e-4)
        case "grpo/openrlhf":
            return _by_rows(own, 1e-9).clamp(-10, 10)
        case "grpo/slime":
            return _by_rows(own, 1e-6)
        case "dr_grpo/trl" | "dr_grpo/slime" | "dr_grpo/openrlhf":
            return _by_rows(own, None)
        case "grpo/nemo-loo" | "grpo/nemo":
            return _nemo(own, name == "grpo/nemo-loo")
        case "rloo/verl":
            return _rloo(own, raw=True)
    return None


def advantages(name: str, rows: Sequence[Row], request: Request) -> list[float] | None:
    """One number per row; None where these operations are not written down here."""
    refusing = getattr(request.params, "singleton", None) in ("refuse", "nan")
    if request.whitening.scope != "none" or (refusing and _singletons(rows)):
        return None
    scores = torch.tensor([row["reward"] for row in rows], dtype=torch.float32)
    names: list[Any] = [row["group_id"] for row in rows]
    found = torch.zeros_like(scores)
    for group in dict.fromkeys(names):
        places = torch.tensor([place for place, other in enumerate(names) if other == group])
        own = _of_group(name, scores[places])
        if own is None:
            return None
        found[places] = own
    return [float(value) for value in found]


def _singletons(rows: Sequence[Row]) -> bool:
    names = [row["group_id"] for row in rows]
    return any(names.count(name) == 1 for name in names)
