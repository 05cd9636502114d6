"""Moving a token field inside each rollout."""

import torch
from torch import Tensor

from estimators.batch import Batch
from estimators.masked import repeated

#: What comes in where nothing is left to move: 0, the value that was there, or what left at the other end.
EDGES = ("zero", "kept", "wrapped")


def shifted(values: Tensor, batch: Batch, steps: int, edge: str = "zero") -> Tensor:
    """`values` `[N]` moved `steps` tokens later (earlier where negative) inside each rollout."""
    lengths = repeated(batch.lengths, batch.lengths)
    place = torch.arange(batch.tokens, device=values.device) - repeated(batch.offsets[:-1], batch.lengths)
    source = place - steps
    inside = (source >= 0) & (source < lengths)
    start = repeated(batch.offsets[:-1], batch.lengths)
    if edge == "wrapped":
        return values[start + source.remainder(lengths)]
    moved = values[start + torch.where(inside, source, place)]
    return moved if edge == "kept" else torch.where(inside, moved, torch.zeros_like(moved))
