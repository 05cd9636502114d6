"""What a recursion over tokens is given: formulas that are given the same have the same advantages."""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class Inputs:
    """All that advantages per token depend on.

    tokens   `[N]` each, as they enter the recursion
    numbers  γ and λ
    mask     `[N]` bool, the batch's own; `skips`: tokens where it is not set do not enter
    offsets  `[B+1]`
    """

    tokens: tuple[Tensor, ...]
    numbers: tuple[float, ...]
    mask: Tensor
    skips: bool
    offsets: Tensor

    def same(self, other: "Inputs") -> bool:
        """Whether both give the same advantages, bit by bit; NaN is like nothing, not even NaN."""
        if self.numbers != other.numbers or self.skips != other.skips:
            return False
        if self.mask is not other.mask or self.offsets is not other.offsets:
            return False
        return all(self._equal(a, b) for a, b in zip(self.tokens, other.tokens, strict=True))

    def _equal(self, one: Tensor, other: Tensor) -> bool:
        if one is other:
            return True
        if one.dtype != other.dtype:
            return False
        differs = torch.ne(one, other)
        return not bool((differs & self.mask if self.skips else differs).any())
