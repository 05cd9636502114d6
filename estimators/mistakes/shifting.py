"""Moving a token field inside each rollout."""

import torch
from torch import Tensor

from estimators.batch import Batch
from estimators.masked import repeated

#: What comes in where nothing is left to move: 0, the value that was there, or what left at the other end.
EDGES = ("zero", "kept", "wrapped")


def shifted(values: Tensor, batch: Batch, steps: int, edge: str = "zero") -> Tensor:
    """`values` `[N]` moved `steps` tokens later (earlier where negative) inside each rollout."""
    moved = torch.roll(values, steps)
    # Only so many tokens at one end of each rollout have something else than their neighbour's.
    lengths, ends = batch.lengths, batch.lengths.clamp(max=abs(steps))
    rows = repeated(torch.arange(batch.rollouts, device=values.device), ends)
    first = torch.cumsum(ends, 0) - ends
    place = torch.arange(rows.shape[0], device=values.device) - first[rows]
    if steps < 0:
        place = lengths[rows] - 1 - place
    at = batch.offsets[rows] + place
    if edge == "zero":
        moved[at] = torch.zeros_like(moved[at])
    else:
        source = place if edge == "kept" else (place - steps).remainder(lengths[rows])
        moved[at] = values[batch.offsets[rows] + source]
    return moved
