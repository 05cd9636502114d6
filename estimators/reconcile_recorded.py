"""The recorded side of a reconciliation: how exact the numbers are, and how far others lie from them."""

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from estimators.batch import Batch
from estimators.masked import repeated, segment_least, segment_sums
from estimators.reconciliation import Recorded

#: At most this many numbers are looked at to tell how exactly they were written.
SAMPLE = 4096


@dataclass(frozen=True, slots=True)
class Precision:
    """How exactly numbers were written down.

    floor     relative size of what writing them has changed; `absolute` likewise, by rounding to decimals
    rtol      how far a framework's own arithmetic may be off
    """

    name: str
    floor: float
    absolute: float
    rtol: float


def precision_of(values: Tensor) -> Precision:
    """The coarsest way of writing numbers that all finite `values` agree with."""
    kept = values[torch.isfinite(values) & (values != 0)]
    if kept.shape[0] > SAMPLE:
        kept = kept[:: kept.shape[0] // SAMPLE]
    exact = kept.double()
    for digits in range(2, 13):
        scaled = exact * 10.0**digits
        if bool(((scaled - scaled.round()).abs() <= 1e-6 * torch.clamp(scaled.abs() * 1e-9, 1.0)).all()):
            return Precision(f"decimals:{digits}", 2**-40, 0.5 * 10.0**-digits, 1e-5)
    if bool((exact.to(torch.float32).double() == exact).all()):
        return Precision("float32", 2**-22, 0.0, 1e-5)
    return Precision("float64", 2**-40, 0.0, 1e-5)


#: Tried where nothing agrees within the ordinary tolerance.
COARSE = {
    "bfloat16": (torch.bfloat16, Precision("bfloat16", 2**-8, 0.0, 2**-8)),
    "float16": (torch.float16, Precision("float16", 2**-10, 0.0, 2**-10)),
}


def coarse_precision(values: Tensor) -> Precision | None:
    """bfloat16 or float16 where every number fits in it, else None."""
    kept = values[torch.isfinite(values)]
    for dtype, precision in COARSE.values():
        if kept.numel() and bool((kept.to(dtype).to(kept.dtype) == kept).all()):
            return precision
    return None


@dataclass(frozen=True, slots=True)
class Fit:
    """How near: `off` `[B]` is each rollout's largest error (NaN where not compared), `agrees` `[B]` bool.

    `relative` is the p99 error over the size of the recorded numbers; `unit` how fine they can tell.
    """

    max_abs_error: float
    p99_abs_error: float
    off: Tensor
    agrees: Tensor
    rollouts: int

    @property
    def rollouts_matched(self) -> int:
        return int(self.agrees.sum())

    @property
    def matched(self) -> bool:
        return self.rollouts > 0 and self.rollouts_matched == self.rollouts


class View:
    """Recorded advantages as they are compared: over unmasked tokens that have one."""

    def __init__(self, batch: Batch, recorded: Recorded, precision: Precision | None = None) -> None:
        self.batch = batch
        self.recorded = recorded
        self.values = recorded.advantages
        self.precision = precision or precision_of(self._compared)

    @property
    def _compared(self) -> Tensor:
        return self.values[self.batch.response_mask] if self.recorded.per_token else self.values

    @cached_property
    def taken(self) -> Tensor:
        """`[N]` bool where per token: unmasked and recorded."""
        return self.batch.response_mask & torch.isfinite(self.values)

    @cached_property
    def counts(self) -> Tensor:
        """Compared tokens of each rollout, `[B]` int64."""
        if not self.recorded.per_token:
            return torch.where(torch.isfinite(self.values), self.batch.unmasked, 0)
        return segment_sums(self.taken.double(), self.batch.offsets).long()

    @cached_property
    def extremes(self) -> tuple[Tensor, Tensor]:
        """Least and greatest recorded number of each rollout, `[B]` float64; NaN where none is compared."""
        if not self.recorded.per_token:
            own = torch.where(self.counts > 0, self.values.double(), torch.nan)
            return own, own
        low = segment_least(torch.where(self.taken, self.values, torch.inf), self.batch.offsets)
        high = -segment_least(torch.where(self.taken, -self.values, torch.inf), self.batch.offsets)
        none = self.counts == 0
        return low.double().masked_fill(none, torch.nan), high.double().masked_fill(none, torch.nan)

    @cached_property
    def per_rollout(self) -> Tensor | None:
        """`[B]` float64: each rollout's one number, NaN where none; None where they vary inside a rollout."""
        low, high = self.extremes
        size = torch.maximum(low.abs(), high.abs())
        if bool(((high - low) > 4 * 2**-24 * size + 2 * self.precision.absolute).any()):
            return None
        return (low + high) / 2

    @cached_property
    def scale(self) -> float:
        """Median size of the recorded numbers that are not 0; 0 where all are."""
        low, high = self.extremes
        size = torch.maximum(low.abs(), high.abs())
        size = size[size > 0]
        return float(size.median()) if size.numel() else 0.0

    @cached_property
    def slack(self) -> Tensor:
        """What an error may be beside the relative tolerance, `[B]` float64."""
        low, high = self.extremes
        size = torch.maximum(low.abs(), high.abs()).nan_to_num(0.0)
        return 2e-6 * torch.maximum(size, torch.full_like(size, self.scale)) + self.precision.absolute + 1e-12

    def fit(self, found: Tensor, per_token: bool) -> Fit:
        """Of computed advantages, `[N]` where per token, else `[B]`. NaN among them agrees with 0 only."""
        if not per_token and self.per_rollout is not None:
            return self._fit_rollouts(found)
        if not self.recorded.per_token:
            sums = segment_sums(torch.where(self.batch.response_mask, found, 0.0), self.batch.offsets)
            return self._fit_rollouts(sums / self.batch.unmasked.clamp(min=1))
        if not per_token:
            found = repeated(found, self.batch.lengths)
        return self._fit_tokens(found)

    def _fit_rollouts(self, found: Tensor) -> Fit:
        recorded = self.per_rollout if self.per_rollout is not None else self.values.double()
        compared = self.counts > 0
        error = (found.double().nan_to_num(0.0) - recorded).abs()
        agrees = compared & (error <= self.precision.rtol * recorded.abs() + self.slack)
        agrees &= torch.isfinite(found) | (recorded == 0)
        error = error.masked_fill(~compared, torch.nan)
        kept, weight = error[compared], self.counts[compared]
        return Fit(_greatest(kept), _weighted_p99(kept, weight), error, agrees, int(compared.sum()))

    def _fit_tokens(self, found: Tensor) -> Fit:
        recorded = torch.where(self.taken, self.values, 0.0).double()
        shown = torch.where(self.taken, found, 0.0).double()
        error = (shown.nan_to_num(0.0) - recorded).abs()
        allowed = self.precision.rtol * recorded.abs() + repeated(self.slack, self.batch.lengths)
        wrong = (error > allowed) | (~torch.isfinite(shown) & (recorded != 0))
        compared = self.counts > 0
        agrees = compared & (segment_sums(wrong.double(), self.batch.offsets) == 0)
        off = -segment_least(-error, self.batch.offsets)
        off = off.masked_fill(~compared, torch.nan)
        kept = error[self.taken]
        return Fit(_greatest(kept), _p99(kept), off, agrees, int(compared.sum()))


def _greatest(errors: Tensor) -> float:
    return float(errors.max()) if errors.numel() else 0.0


def _p99(errors: Tensor) -> float:
    if not errors.numel():
        return 0.0
    return float(errors.kthvalue(max(1, -(-errors.numel() * 99 // 100))).values)


def _weighted_p99(errors: Tensor, weight: Tensor) -> float:
    """The least error that 99 % of the tokens do not exceed."""
    if not errors.numel():
        return 0.0
    order = torch.argsort(errors)
    reached = torch.cumsum(weight[order], 0).double() >= 0.99 * float(weight.sum())
    return float(errors[order][reached][0])
