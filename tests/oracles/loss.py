"""Losses averaged as each framework says it: explicit loops over rollouts and tokens."""

from collections.abc import Hashable, Sequence

Rows = Sequence[Sequence[float]]
Masks = Sequence[Sequence[bool]]


def loss(rows: Rows, masks: Masks, groups: Sequence[Hashable], mode: str, width: float) -> float:
    """The loss of a batch from the loss of every token. 0 for a batch without an unmasked token."""
    sums = [
        sum(x for x, m in zip(row, mask, strict=True) if m) for row, mask in zip(rows, masks, strict=True)
    ]
    lengths = [sum(mask) for mask in masks]
    live = [i for i, length in enumerate(lengths) if length]
    if not live:
        return 0.0
    if mode in ("token-mean", "token_mean", "trl-bnpo", "trl-dapo"):
        return sum(sums) / sum(lengths)
    if mode == "token-sum":
        return sum(sums)
    if mode == "seq-mean-token-sum":
        return sum(sums) / len(live)
    if mode == "seq-mean-token-mean":
        return sum(sums[i] / (lengths[i] + 1e-8) for i in live) / len(live)
    if mode == "seq-mean-token-sum-norm":
        return sum(sums) / len(live) / width
    if mode in ("dr_grpo", "seq_mean_token_sum_norm"):
        return sum(sums) / len(rows) / width
    if mode in ("trl-grpo", "sequence_mean"):
        return sum(sums[i] / lengths[i] for i in live) / len(rows)
    if mode == "trl-luspo":
        return sum(sums) / len(rows)
    prompts = {groups[i] for i in live}
    of = {p: [i for i in live if groups[i] == p] for p in prompts}
    means = [sum(sums[i] for i in own) / sum(lengths[i] for i in own) for own in of.values()]
    return sum(means) / len(prompts)
