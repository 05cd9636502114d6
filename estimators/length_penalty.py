"""prime-rl's length penalty: a share of the group's pass rate, by how long a rollout is beside others."""

import torch
from torch import Tensor

from estimators.batch import Batch
from estimators.centring import Seen
from estimators.masked import segment_sums


def length_penalty(seen: Seen, batch: Batch, weights: tuple[float, float, float]) -> Tensor:
    """mean_g · Σ w·x / max_g x, `[B]`, with x the output tokens, the input tokens and the turns.

    Output tokens are the unmasked ones; input tokens those of the prompt and the masked ones; a turn is a run
    of unmasked tokens.
    """
    unmasked = batch.unmasked.double()
    prompt = 0 if batch.prompt_length is None else batch.prompt_length.double()
    amounts = (unmasked, batch.lengths.double() - unmasked + prompt, turns(batch))
    share = torch.zeros_like(unmasked)
    for weight, amount in zip(weights, amounts, strict=True):
        most = torch.zeros_like(seen.stats.mean).scatter_reduce(0, seen.group, amount, "amax")[seen.group]
        share += weight * torch.where(most > 0, amount / most.clamp(min=1.0), 0.0)
    return seen.mean * share.to(seen.scores.dtype)


def turns(batch: Batch) -> Tensor:
    """Runs of unmasked tokens of each rollout, `[B]` float64."""
    mask = batch.response_mask
    begins = mask.clone()
    begins[1:] &= ~mask[:-1]
    first = batch.offsets[:-1][batch.lengths > 0]
    begins[first] = mask[first]
    return segment_sums(begins.double(), batch.offsets)
