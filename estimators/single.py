"""Mean and spread of groups in single precision, by the same operations in the same order as a framework.

Single precision rounds each step, so what comes first shows in the last bit, and in groups of equal scores
that last bit is all there is: eight rewards of 0.7 have a std of 6e-8 in verl, and an advantage of 0.056.
`Rounding` says whose order it is:

    verl       `torch.mean` and `torch.std` of each group's own tensor: the sum of the group in single
               precision; the squared deviations from the rounded mean in double precision, rounded at the end
               (also prime-rl, tinker-cookbook)
    skyrl      as verl, but leave-one-out multiplies last
    rows       `mean` and `std` along the rows of a matrix of groups (OpenRLHF, ROLL): Welford's recurrence
    centred    the same, the std that of the centred scores (slime)
    nan        `nanmean`, and √ of the mean square times n/(n − 1), over rows with NaN for the unscored (TRL)
    scattered  sums by `index_add_` in the order of the file (verl's vectorised functions, torchrl)

NeMo-RL's E[x²] − E[x]² by matrix products is `leave_one_out.one_pass`.

`Estimator.run(batch, params, torch.float32)` on the CPU gives the framework's numbers bit by bit where it
has its scores of rollouts (one reward per rollout, no KL taken off): for grpo, dr_grpo, rloo, opo, gpg,
grpo_passk and the two vectorised conventions of verl; grpo, dr_grpo, rloo and maxrl of SkyRL; grpo, dr_grpo
and rloo of OpenRLHF; grpo and dr_grpo of slime; grpo/roll; grpo/trl-group, dr_grpo/trl and rloo/trl without
normalising; dr_grpo and maxrl of prime-rl; dr_grpo/tinker; grpo/nemo and grpo/nemo-loo. Sums over the
tokens of a batch (whitening, GAE, gdpo) agree within some units of the last place: they depend on how the
framework pads."""

from collections.abc import Callable
from typing import Literal

import numpy as np
import torch
from torch import Tensor

#: In whose order sums in single precision are made. `skyrl`: as verl, but leave-one-out multiplies last.
Rounding = Literal["verl", "skyrl", "rows", "centred", "nan", "scattered"]

#: Mean and std of the rows of a matrix `[groups, size]`, `[groups]` each; size is above ddof.
Kernel = Callable[[Tensor, int], tuple[Tensor, Tensor]]


def _stacked(rows: Tensor, ddof: int) -> tuple[Tensor, Tensor]:
    mean = rows.mean(dim=1)
    squares = (rows.double() - mean.double()[:, None]).square().sum(dim=1)
    return mean, (squares / (rows.shape[1] - ddof)).sqrt().to(rows.dtype)


def _rows(rows: Tensor, ddof: int) -> tuple[Tensor, Tensor]:
    return rows.mean(dim=1), rows.std(dim=1, correction=ddof)


def _centred(rows: Tensor, ddof: int) -> tuple[Tensor, Tensor]:
    mean = rows.mean(dim=1)
    return mean, (rows - mean[:, None]).std(dim=1, correction=ddof)


def _nan(rows: Tensor, ddof: int) -> tuple[Tensor, Tensor]:
    mean = torch.nanmean(rows, dim=1, keepdim=True)
    variance = torch.nanmean((rows - mean) ** 2, dim=1)
    count = torch.sum(~torch.isnan(rows), dim=1)
    return mean[:, 0], torch.sqrt(variance * (count / (count - ddof)))


KERNELS: dict[Rounding, Kernel] = {
    "verl": _stacked,
    "skyrl": _stacked,
    "rows": _rows,
    "centred": _centred,
    "nan": _nan,
}


def single_statistics(
    scores: Tensor, group: Tensor, counted: Tensor, ddof: int | None, rounding: Rounding
) -> tuple[Tensor, Tensor]:
    """Mean and std of each rollout's group, `[B]` each, of the `counted` `[B]` bool scores `[B]` float32.

    NaN where nothing is counted, and for the std where no more than `ddof` are. No std without `ddof`.
    """
    if rounding == "scattered":
        return _scattered(scores, group, counted, ddof)
    mean, std = torch.full_like(scores, torch.nan), torch.full_like(scores, torch.nan)
    # TRL's rows hold NaN for the unscored; elsewhere there are none.
    present = torch.ones_like(counted) if rounding == "nan" else counted
    values = torch.where(counted, scores, torch.nan) if rounding == "nan" else scores
    for members in by_size(group, present):
        rows = values[members]
        if rows.shape[1] <= (ddof or 0):
            mean[members] = rows
            continue
        found = KERNELS[rounding](rows, ddof or 0)
        mean[members] = found[0][:, None].expand_as(rows)
        std[members] = found[1][:, None].expand_as(rows)
    return mean, std


def _scattered(scores: Tensor, group: Tensor, counted: Tensor, ddof: int | None) -> tuple[Tensor, Tensor]:
    none = scores.new_zeros(int(group.max()) + 1 if group.numel() else 0)
    own, taken = group[counted], scores[counted]
    count = none.index_add(0, own, torch.ones_like(taken))
    mean = none.index_add(0, own, taken) / count.clamp_min(1.0)
    away = taken - mean[own]
    room = count - (ddof or 0)
    std = torch.sqrt(none.index_add(0, own, away * away) / room.clamp_min(1.0))
    std = torch.where(room > 0, std, torch.nan)
    return torch.where(count > 0, mean, torch.nan)[group], std[group]


def plain_statistics(scores: Tensor, group: Tensor, counted: Tensor, ddof: int) -> tuple[Tensor, Tensor]:
    """Mean and std as numpy has them of each group's own array, in the scores' own precision, `[B]` each.

    NaN where nothing is counted, and for the std where no more than `ddof` are.
    """
    mean, std = torch.full_like(scores, torch.nan), torch.full_like(scores, torch.nan)
    for members in by_size(group, counted):
        rows = scores[members].cpu().numpy()
        # Sums that overflow are infinite, as without numpy's warning.
        with np.errstate(all="ignore"):
            mean[members] = torch.from_numpy(rows.mean(axis=1, keepdims=True)).to(mean).expand(members.shape)
            if members.shape[1] > ddof:
                found = rows.std(axis=1, ddof=ddof, keepdims=True)
                std[members] = torch.from_numpy(found).to(std).expand(members.shape)
    return mean, std


def sum_of_group(scores: Tensor, group: Tensor, counted: Tensor, rounding: Rounding) -> Tensor:
    """Sum of the counted scores of each rollout's group, `[B]`, in the scores' own precision."""
    if rounding == "scattered":
        none = scores.new_zeros(int(group.max()) + 1 if group.numel() else 0)
        return none.index_add(0, group[counted], scores[counted])[group]
    found = torch.zeros_like(scores)
    present = torch.ones_like(counted) if rounding == "nan" else counted
    values = torch.where(counted, scores, torch.nan) if rounding == "nan" else scores
    for members in by_size(group, present):
        rows = values[members]
        sums = torch.nansum(rows, dim=1) if rounding == "nan" else rows.sum(dim=1)
        found[members] = sums[:, None].expand_as(rows)
    return found


def by_size(group: Tensor, counted: Tensor) -> list[Tensor]:
    """The counted members of the groups, one `[groups of a size, size]` of positions for each size."""
    sizes = torch.bincount(group[counted], minlength=int(group.max()) + 1 if group.numel() else 0)
    order = torch.nonzero(counted).squeeze(1)
    order = order[torch.argsort(group[order], stable=True)]
    size_of = sizes[group[order]]
    return [order[size_of == size].view(-1, size) for size in torch.unique(size_of).tolist()]
