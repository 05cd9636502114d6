"""Who is in a group: rows by their recorded group or their place in the file, segments of a rollout once."""

from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from torch import Tensor

from estimators.batch import Batch
from estimators.parameters import About
from estimators.refused import Refused
from estimators.rewards import ScoreParams


@dataclass(frozen=True, slots=True)
class MembershipParams(ScoreParams):
    """How rollouts come into groups."""

    group_size: Annotated[
        int | None,
        About("groups of so many rollouts in the order of the file; null: the groups of the request", 1),
    ] = None
    group_count: Annotated[
        int | None, About("how many such groups are expected; with another number, as `incomplete` says", 1)
    ] = None
    incomplete: Annotated[
        Literal["group", "refuse", "batch", "raw"],
        About(
            "rollouts that do not fill groups of `group_size`: the rest is a smaller group, refused, the "
            "whole batch becomes one group, or the rest is not centred and its std counts as 0"
        ),
    ] = "group"
    segments: Annotated[
        Literal["each", "last"],
        About("segments of one rollout_id: each is compared; or the last, and the others get its advantage"),
    ] = "each"


def places(batch: Batch) -> Tensor:
    """Place of each rollout in the order of the file, 0 … B−1, `[B]` int64."""
    count = batch.rollouts
    here = torch.arange(count, device=batch.group.device)
    if batch.index is None:
        return here
    found = torch.empty_like(here)
    found[torch.argsort(batch.index, stable=True)] = here
    return found


def members_of(batch: Batch, params: MembershipParams) -> tuple[Tensor, Tensor | None]:
    """The number of each rollout's group, `[B]`, and which rollouts fill none and are to be taken as they are
    (None: all fill one)."""
    size = params.group_size
    if size is None:
        return batch.group, None
    group, rest = places(batch) // size, batch.rollouts % size
    expected = None if params.group_count is None else params.group_count * size
    if not rest and expected in (None, batch.rollouts):
        return group, None
    if params.incomplete == "refuse":
        raise Refused(
            f"{batch.rollouts} rollouts cannot be cut into groups of {size}; {rest} would be left over. "
            "Group by group_id (leave the size out), or give incomplete: group to make the rest a group."
        )
    if params.incomplete == "batch":
        return torch.zeros_like(group), None
    return group, (group == batch.rollouts // size) if params.incomplete == "raw" and rest else None


def last_segments(batch: Batch, group: Tensor, params: MembershipParams) -> Tensor | None:
    """`[B]` bool: the rows that stand for their rollout; None where every row does."""
    if params.segments == "each" or batch.rollout_id is None:
        return None
    return _representatives(batch, group, batch.rollout_id) == torch.arange(
        batch.rollouts, device=group.device
    )


def of_last_segment(advantages: Tensor, batch: Batch, group: Tensor, params: MembershipParams) -> Tensor:
    """Every row's advantage `[B]`, that of the row that stands for its rollout."""
    if params.segments == "each" or batch.rollout_id is None:
        return advantages
    return advantages[_representatives(batch, group, batch.rollout_id)]


def _representatives(batch: Batch, group: Tensor, rollout: Tensor) -> Tensor:
    """For each row the row of its rollout's last segment, `[B]`: the greatest segment, then the last row.

    A rollout is one `rollout_id` of one group.
    """
    count = batch.rollouts
    order = places(batch)
    if batch.segment is not None:
        order = torch.argsort(torch.argsort(batch.segment * count + order, stable=True))
    key = torch.unique(group * (int(rollout.max()) + 1 if count else 1) + rollout, return_inverse=True)[1]
    greatest = torch.full((count,), -1, dtype=torch.int64, device=group.device)
    greatest = greatest.scatter_reduce(0, key, order, "amax")
    where = torch.empty_like(order)
    where[order] = torch.arange(count, device=order.device)
    return where[greatest[key]]
