"""Seeded batches with every field, on which conventions and mistakes leave their traces."""

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from estimators import Batch


def generated(seed: int = 3, groups: int = 6, size: int = 4, width: int = 24, **changes: Any) -> Batch:
    """`groups` of `size` rollouts, one group of one and one constant group more, in an interleaved file.

    Lengths differ, tool output is masked inside some rollouts, one ends with masked tokens, a reward lies on
    the last token of each; values, log-probs and ranks are recorded.
    """
    draw = torch.Generator().manual_seed(seed)
    numbers = torch.cat(
        [torch.arange(groups).repeat(size), torch.tensor([groups]), torch.full((size,), groups + 1)]
    )
    count = numbers.shape[0]
    lengths = torch.randint(width // 2, width + 1, (count,), generator=draw)
    offsets = torch.nn.functional.pad(torch.cumsum(lengths, 0), (1, 0))
    tokens = int(offsets[-1])
    scores = torch.randn(count, generator=draw, dtype=torch.float64)
    scores[-size:] = 0.25
    fields: dict[str, Any] = {
        "values": torch.randn(tokens, generator=draw, dtype=torch.float64) * 0.5,
        "old_log_probs": -torch.rand(tokens, generator=draw, dtype=torch.float64),
        "ref_log_probs": -torch.rand(tokens, generator=draw, dtype=torch.float64),
        "sum_pi_squared": torch.rand(tokens, generator=draw, dtype=torch.float64),
        "reward_baseline": torch.randn(count, generator=draw, dtype=torch.float64),
        "rank": torch.arange(count) % 3,
        "index": torch.arange(count),
    }
    batch = Batch(
        offsets=offsets,
        response_mask=_mask(lengths, offsets),
        group=numbers,
        scores=scores,
        token_level_rewards=_on_last(scores, offsets),
        components={"right": scores * 0.75, "style": scores.square()},
        **fields,
    )
    return replace(batch, **changes)


def _mask(lengths: Tensor, offsets: Tensor) -> Tensor:
    mask = torch.ones(int(offsets[-1]), dtype=torch.bool)
    for row in range(0, lengths.shape[0], 3):
        start = int(offsets[row]) + int(lengths[row]) // 3
        mask[start : start + 3] = False
    mask[int(offsets[2]) - 2 : int(offsets[2])] = False
    return mask


def _on_last(scores: Tensor, offsets: Tensor) -> Tensor:
    rewards = torch.zeros(int(offsets[-1]), dtype=torch.float64)
    rewards[offsets[1:] - 1] = scores
    return rewards


def one_turn(seed: int = 5, **changes: Any) -> Batch:
    """No masked token, groups side by side and all of one size: what most files look like."""
    batch = generated(seed, groups=8)
    keep = batch.rollouts - 5
    tokens = int(batch.offsets[keep])
    order = torch.argsort(batch.group[:keep], stable=True)
    cut: dict[str, Any] = {"components": {name: part[:keep] for name, part in batch.components.items()}}
    for name in (
        "response_mask",
        "token_level_rewards",
        "values",
        "old_log_probs",
        "ref_log_probs",
        "sum_pi_squared",
    ):
        cut[name] = getattr(batch, name)[:tokens]
    for name in ("scores", "reward_baseline", "rank", "index"):
        cut[name] = getattr(batch, name)[:keep]
    cut["response_mask"] = torch.ones_like(cut["response_mask"])
    return replace(
        batch, offsets=batch.offsets[: keep + 1], group=batch.group[:keep][order], **cut, **changes
    )
