"""The importance ratio of each token between two policies and what PPO's clipping does to it.

    ratio_t = π_new / π_old        ℓ_t = max(−A·ratio, −A·clip(ratio, 1 − ε_low, 1 + ε_high))

A clipped token has no gradient. With the dual clip a token of negative advantage has a loss of at most
−A·c (Ye et al. 2020, arXiv:1912.09729). Agrees with verl 0.9.1 (`compute_policy_loss_vanilla`).
"""

from dataclasses import dataclass

import torch
from torch import Tensor

#: The log-ratio is kept inside ±20, so that the ratio stays finite.
LIMIT = 20.0
#: Values of `PolicyRatio.side`.
LOW, INSIDE, HIGH, DUAL = -1, 0, 1, 2


@dataclass(frozen=True, slots=True)
class PolicyRatio:
    """Per token, `[N]`.

    ratio     π_new / π_old; NaN where a log-probability is
    side      int8: LOW and HIGH where clipping takes the gradient away, DUAL where the dual clip does, else
              INSIDE: also where the ratio is out of bounds on the side that is not clipped
    loss      −A·ratio after clipping
    """

    ratio: Tensor
    side: Tensor
    loss: Tensor

    def fraction(self, mask: Tensor) -> float:
        """Share of the unmasked tokens that are clipped on either side; NaN where there is none."""
        counted = mask & torch.isfinite(self.ratio)
        clipped = counted & (self.side != INSIDE)
        return float(clipped.sum() / counted.sum()) if bool(counted.any()) else float("nan")


def policy_ratio(
    old_log_probs: Tensor,
    new_log_probs: Tensor,
    advantages: Tensor,
    clip_low: float = 0.2,
    clip_high: float = 0.2,
    dual_clip: float | None = None,
) -> PolicyRatio:
    """Ratio, clip side and loss per token; `advantages` `[N]` decide the side on which a token is clipped.

    `dual_clip` is c above 1, or None for no dual clip.
    """
    ratio = (new_log_probs - old_log_probs).clamp(-LIMIT, LIMIT).exp()
    bounded = ratio.clamp(1.0 - clip_low, 1.0 + clip_high)
    plain, clipped = -advantages * ratio, -advantages * bounded
    loss = torch.maximum(plain, clipped)
    side = torch.zeros_like(ratio, dtype=torch.int8)
    side[(clipped > plain) & (ratio < bounded)] = LOW
    side[(clipped > plain) & (ratio > bounded)] = HIGH
    if dual_clip is not None:
        most = -advantages * dual_clip
        beyond = (advantages < 0) & (loss > most)
        loss, side = torch.where(beyond, most, loss), side.masked_fill(beyond, DUAL)
    return PolicyRatio(ratio, side, loss)
