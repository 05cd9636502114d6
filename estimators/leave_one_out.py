"""Mean and spread of a rollout's siblings without itself."""

import torch
from torch import Tensor

from estimators.centring import Seen, by_size, not_overflown

#: Squared deviations of the others below this share of the whole group's are rounding, and count as 0.
ROUNDING = 1e-12


def mean_of_others(seen: Seen) -> Tensor:
    """Mean of the other counted members of its group, `[B]`; 0 where there is none."""
    others = seen.number - 1
    mean = seen.mean
    away = (seen.scores - mean) / others.clamp(min=1.0).to(mean.dtype)
    return torch.where(others > 0, mean - away, 0.0)


def std_of_others(seen: Seen) -> Tensor:
    """Std, ddof 1, of the other counted members, `[B]` float64; NaN where there are fewer than two."""
    number, m2 = seen.number, not_overflown(seen.stats.m2, None)[seen.group]
    away = (seen.scores.double() - seen.stats.mean[seen.group]).square()
    squares = m2 - away * number / (number - 1).clamp(min=1.0)
    squares = torch.where(squares > ROUNDING * m2, squares, 0.0)
    return torch.where(number > 2, squares / (number - 2).clamp(min=1.0), torch.nan).sqrt()


def one_pass(seen: Seen, leave_out: bool) -> tuple[Tensor, Tensor]:
    """Mean and std of the group, or of the others, as NeMo-RL computes them: E[x²] − E[x]² in the scores' own
    precision, 0 where that is negative or undefined. Its rounding shows with nearly constant groups."""
    mean, std = torch.zeros_like(seen.scores), torch.zeros_like(seen.scores)
    for members in by_size(seen.group, seen.counted):
        size = members.shape[1]
        rows = seen.scores[members]
        if size == 1:
            mean[members] = rows
            continue
        number = size - int(leave_out)
        weights = torch.ones((size, size), dtype=rows.dtype, device=rows.device)
        if leave_out:
            weights -= torch.eye(size, dtype=rows.dtype, device=rows.device)
        # One product per group, as there: a product of matrices would add up in another order.
        average = torch.stack([torch.mv(weights, row) for row in rows]) / number
        squares = torch.stack([torch.mv(weights, row.square()) for row in rows]) / number
        mean[members] = average
        room = number / (number - 1) if number > 1 else torch.nan
        std[members] = ((squares - average.square()) * room).sqrt().nan_to_num(0.0)
    return mean, std
