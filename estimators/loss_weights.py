"""How much each token counts in the loss: the weight w of Σ_t w_t·ℓ_t under every way of averaging in use.

In all of them the tokens of one rollout weigh the same, so one number per rollout says everything.
N: unmasked tokens of the batch, L_i: of rollout i, S: rollouts with one, B: all rollouts, P: prompts with
one, N_p: tokens of prompt p, W: padded width.

Agrees with verl 0.9.1 (`agg_loss`), SkyRL (`apply_loss_reduction_to_advantages_minibatch`) and the loss
types of TRL 1.16.0. `dapo` is the formula of the paper (Yu et al. 2025, arXiv:2503.14476, eq. 12): an average
over the tokens of a prompt's responses, then over prompts. TRL's loss type of that name averages over the
tokens of the batch: `trl-dapo`.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from estimators.batch import Batch
from estimators.masked import on_tokens
from estimators.refused import Refused


@dataclass(frozen=True, slots=True)
class Counts:
    """What the weights are made of: `lengths` `[B]` unmasked tokens, `groups` `[B]`, and the divisor W."""

    lengths: Tensor
    groups: Tensor
    width: float

    @property
    def tokens(self) -> Tensor:
        """N, of the whole batch."""
        return self.lengths.sum()

    @property
    def counted(self) -> Tensor:
        """S, rollouts with an unmasked token."""
        return (self.lengths > 0).sum().double()

    @property
    def rollouts(self) -> float:
        """B, empty and fully masked ones included."""
        return max(float(self.lengths.shape[0]), 1.0)

    @property
    def of_prompt(self) -> Tensor:
        """N_p of each rollout's prompt, `[B]`."""
        groups = int(self.groups.max()) + 1 if self.groups.numel() else 0
        return self.lengths.new_zeros(groups).index_add_(0, self.groups, self.lengths)[self.groups]

    @property
    def prompts(self) -> float:
        """P, prompts with an unmasked token."""
        return float(torch.unique(self.groups[self.lengths > 0]).numel())


@dataclass(frozen=True, slots=True)
class LossMode:
    """One way to average: `weight` gives the weight of an unmasked token of each rollout, `[B]` or a scalar.

    `uses_width` says that W, or a constant in its place, divides.
    """

    name: str
    framework: str
    formula: str
    sentence: str
    weight: Callable[[Counts], Tensor | float]
    uses_width: bool = False


def _prompt_mean(counts: Counts) -> Tensor:
    return 1.0 / (max(counts.prompts, 1.0) * counts.of_prompt)


_PER_TOKEN = "Every token weighs the same, so long responses weigh more."
_PER_RESPONSE = "Every response weighs the same, so a token of a long one weighs less."
_SUMMED = "Every token weighs the same; the scale follows the number of responses, not of tokens."

_MODES = (
    LossMode("token-mean", "verl", "Σ ℓ·m / N", _PER_TOKEN, lambda c: 1.0 / c.tokens),
    LossMode(
        "token-sum",
        "verl",
        "Σ ℓ·m",
        "Every token weighs 1; the loss grows with the batch.",
        lambda c: 1.0,
    ),
    LossMode("seq-mean-token-sum", "verl", "Σ ℓ·m / S", _SUMMED, lambda c: 1.0 / c.counted),
    LossMode(
        "seq-mean-token-mean",
        "verl",
        "1/S · Σ_i Σ_t ℓ·m / (L_i + 1e-8)",
        _PER_RESPONSE,
        lambda c: 1.0 / (c.counted * (c.lengths + 1e-8)),
    ),
    LossMode(
        "seq-mean-token-sum-norm",
        "verl",
        "Σ ℓ·m / (S·W)",
        "Every token weighs the same; the scale follows the padded width unless it is set.",
        lambda c: 1.0 / (c.counted * c.width),
        uses_width=True,
    ),
    LossMode(
        "dapo",
        "paper",
        "1/P · Σ_p Σ_(i,t in p) ℓ·m / N_p",
        "Every prompt weighs the same, and inside a prompt every token.",
        _prompt_mean,
    ),
    LossMode(
        "dr_grpo",
        "trl",
        "Σ ℓ·m / (B·W)",
        "Every token weighs the same, whatever the lengths: W is a constant, the longest response allowed.",
        lambda c: 1.0 / (c.rollouts * c.width),
        uses_width=True,
    ),
    LossMode(
        "trl-grpo",
        "trl",
        "1/B · Σ_i Σ_t ℓ·m / max(L_i, 1)",
        _PER_RESPONSE,
        lambda c: 1.0 / (c.rollouts * c.lengths.clamp(min=1)),
    ),
    LossMode("trl-bnpo", "trl", "Σ ℓ·m / max(N, 1)", _PER_TOKEN, lambda c: 1.0 / c.tokens.clamp(min=1)),
    LossMode("trl-dapo", "trl", "Σ ℓ·m / max(N, 1)", _PER_TOKEN, lambda c: 1.0 / c.tokens.clamp(min=1)),
    LossMode("trl-luspo", "trl", "Σ ℓ·m / B", _SUMMED, lambda c: 1.0 / c.rollouts),
    LossMode("token_mean", "skyrl", "Σ ℓ·m / N", _PER_TOKEN, lambda c: 1.0 / c.tokens.clamp(min=1)),
    LossMode(
        "sequence_mean",
        "skyrl",
        "1/B · Σ_i Σ_t ℓ·m / max(L_i, 1)",
        _PER_RESPONSE,
        lambda c: 1.0 / (c.rollouts * c.lengths.clamp(min=1)),
    ),
    LossMode(
        "seq_mean_token_sum_norm",
        "skyrl",
        "Σ ℓ·m / (B·W)",
        "Every token weighs the same; W is the longest sequence allowed.",
        lambda c: 1.0 / (c.rollouts * c.width),
        uses_width=True,
    ),
    LossMode(
        "prompt_mean",
        "skyrl",
        "1/P · Σ_p Σ_(i,t in p) ℓ·m / N_p",
        "Every prompt weighs the same, and inside a prompt every token.",
        _prompt_mean,
    ),
)

LOSS_MODES: dict[str, LossMode] = {mode.name: mode for mode in _MODES}


def loss_weights(batch: Batch, mode: str, scale_factor: float | None = None) -> Tensor:
    """Weight of one unmasked token of each rollout in the loss, `[B]` float64; 0 where it has none.

    `scale_factor` is the constant W of the modes that divide by one; without it they divide by the longest
    rollout of the batch, masked tokens included, as verl does. Raises Refused for an unknown mode.
    """
    if mode not in LOSS_MODES:
        raise Refused(f"There is no loss_agg_mode {mode!r}; there are {', '.join(LOSS_MODES)}.")
    longest = max(int(batch.lengths.max()), 1) if batch.rollouts else 1
    width = float(longest) if scale_factor is None else scale_factor
    counts = Counts(batch.unmasked.double(), batch.group, width)
    weight = LOSS_MODES[mode].weight(counts)
    return torch.where(counts.lengths > 0, torch.as_tensor(weight, dtype=torch.float64), 0.0)


def token_loss_weights(batch: Batch, mode: str, scale_factor: float | None = None) -> Tensor:
    """`loss_weights` on every token, `[N]` float64; 0 on masked tokens."""
    return on_tokens(loss_weights(batch, mode, scale_factor), batch.response_mask, batch.lengths)
