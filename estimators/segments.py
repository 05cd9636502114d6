"""The same tokens cut into more pieces: where masked tokens stop what flows backwards between tokens."""

from typing import Literal

import torch
from torch import Tensor

from estimators.batch import Batch
from estimators.masked import last_index, repeated, set_positions

#: `before`: nothing flows from a masked token to the one before it. `behind`: nothing flows to a masked one.
Cut = Literal["before", "behind"]


def segmented(batch: Batch, cut: Cut) -> Batch:
    """The batch with a new rollout at every masked token (`before`) or behind every one (`behind`).

    Only offsets and mask mean anything in it. Kept with the batch.
    """
    name = f"segments/{cut}"
    found = batch.derived.get(name)
    if not isinstance(found, Batch):
        masked = set_positions(~batch.response_mask)
        starts = torch.cat([batch.offsets, masked + (0 if cut == "before" else 1)])
        offsets = torch.unique(starts)
        count = offsets.shape[0] - 1
        found = Batch(
            offsets=offsets,
            response_mask=batch.response_mask,
            group=torch.zeros(count, dtype=torch.int64, device=offsets.device),
            scores=torch.full((count,), torch.nan, dtype=torch.float64, device=offsets.device),
        )
        batch.derived[name] = found
    return found


def reached(batch: Batch) -> Tensor:
    """`[N]` bool: tokens up to one place behind the rollout's last unmasked one. Kept with the batch."""
    found = batch.derived.get("reached")
    if not isinstance(found, Tensor):
        last = last_index(batch.response_mask, batch.offsets)
        position = torch.arange(batch.tokens, device=batch.offsets.device)
        found = position <= repeated(torch.where(last >= 0, last + 1, -1), batch.lengths)
        batch.derived["reached"] = found
    return found


def without_end(batch: Batch) -> Tensor:
    """`[B]` bool: rollouts that were cut off. As recorded in `truncated`; where nothing is recorded, those
    that reach as far as the longest of the batch, as AReaL infers it from the padded width."""
    if batch.truncated is not None:
        return batch.truncated
    last = last_index(batch.response_mask, batch.offsets)
    reach = torch.where(last >= 0, last - batch.offsets[:-1], -1)
    return (reach == reach.max()) & (reach >= 0) if batch.rollouts else reach >= 0
