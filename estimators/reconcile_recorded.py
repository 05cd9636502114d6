"""The recorded side of a reconciliation: how exact the numbers are, and how far others lie from them."""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from estimators.batch import Batch
from estimators.layout import spans
from estimators.masked import repeated, segment_least, segment_sums, valid_counts
from estimators.reconcile_errors import binned, from_bins, p99, weighted_p99
from estimators.reconciliation import Recorded
from estimators.whitening import Affine

#: So many decimals are too fine to loosen a comparison; fewer do. So many numbers tell how they were written.
FINE, ENOUGH = 7, 6
#: Up to so many tokens the p99 error is exact.
EXACT = 1 << 16
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


def precision_of(values: Tensor, counted: Tensor | None = None) -> Precision:
    """The coarsest way of writing numbers that all finite `values` (that are `counted`), or as many as tell,
    agree with."""
    exact = _some(values, counted).double()
    for digits in range(FINE, 13):
        if _decimal(exact, digits):
            return _rounded(digits)
    if bool((exact.to(torch.float32).double() == exact).all()):
        return Precision("float32", 2**-23, 0.0, 1e-5)
    return Precision("float64", 2**-40, 0.0, 1e-5)


def _some(values: Tensor, counted: Tensor | None) -> Tensor:
    """Finite numbers that are not 0, spread over all: about SAMPLE, or all where there are fewer."""
    for step in (max(1, values.shape[0] // (8 * SAMPLE)), 1):
        kept = _told(values[::step], None if counted is None else counted[::step])
        if kept.shape[0] > SAMPLE:
            return kept[:: kept.shape[0] // SAMPLE]
    return kept


def _told(values: Tensor, counted: Tensor | None) -> Tensor:
    told = torch.isfinite(values) & (values != 0)
    return values[told if counted is None else told & counted]


def _decimal(exact: Tensor, digits: int) -> bool:
    scaled = exact * 10.0**digits
    return bool(((scaled - scaled.round()).abs() <= torch.clamp(scaled.abs() * 1e-15, min=1e-6)).all())


def _rounded(digits: int) -> Precision:
    return Precision(f"decimals:{digits}", 2**-40, 0.5 * 10.0**-digits, 1e-5)


def coarse_precision(values: Tensor, counted: Tensor | None = None) -> Precision | None:
    """bfloat16, float16 or few decimals where every number fits, and there are enough to tell; else None.
    Tried only where nothing agrees within the ordinary tolerance."""
    sample = _some(values, counted)
    if torch.unique(sample).shape[0] < ENOUGH:
        return None
    for name, dtype, size in (("bfloat16", torch.bfloat16, 2**-8), ("float16", torch.float16, 2**-10)):
        if _fits(sample, dtype) and _fits(_told(values, counted), dtype):
            return Precision(name, size, 0.0, size)
    exact = sample.double()
    return next((_rounded(digits) for digits in range(2, FINE) if _decimal(exact, digits)), None)


def _fits(values: Tensor, dtype: torch.dtype) -> bool:
    return bool((values.to(dtype).to(values.dtype) == values).all())


@dataclass(frozen=True, slots=True)
class Fit:
    """How near: `off` `[B]` is each rollout's largest error (NaN where not compared), `agrees` `[B]` bool,
    `rms` the root of the mean squared error over all compared tokens."""

    max_abs_error: float
    p99_abs_error: float
    rms: float
    off: Tensor
    agrees: Tensor
    rollouts: int
    rollouts_matched: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "rollouts_matched", int(self.agrees.sum()))

    @property
    def matched(self) -> bool:
        return self.rollouts > 0 and self.rollouts_matched == self.rollouts


class View:
    """Recorded advantages as they are compared: over unmasked tokens that have one."""

    def __init__(
        self,
        batch: Batch,
        recorded: Recorded,
        precision: Precision | None = None,
        scale: float | None = None,
    ) -> None:
        self.batch = batch
        self.recorded = recorded
        self.values = recorded.advantages
        self.precision = precision or precision_of(self.values, self._counted)
        self._scale = scale
        self.derived: dict[str, object] = {}

    @property
    def _counted(self) -> Tensor | None:
        return self.batch.response_mask if self.recorded.per_token else None

    def coarse(self) -> Precision | None:
        """How much more coarsely the numbers may have been written, where nothing agrees."""
        return coarse_precision(self.values, self._counted)

    @cached_property
    def taken(self) -> Tensor:
        """`[N]` bool where per token: unmasked and recorded."""
        return self.batch.response_mask & torch.isfinite(self.values)

    @cached_property
    def counts(self) -> Tensor:
        """Compared tokens of each rollout, `[B]` int64."""
        if not self.recorded.per_token:
            return torch.where(torch.isfinite(self.values), self.batch.unmasked, 0)
        return valid_counts(self.taken, self.batch.offsets)

    @cached_property
    def informative(self) -> bool:
        """Whether any rollout has recorded advantages that differ between its tokens."""
        return self.per_rollout is None and bool((self.counts > 1).any())

    @cached_property
    def weight(self) -> Tensor:
        """`[N]` float64: 1 where a token is compared, else 0."""
        return self.taken.double()

    @cached_property
    def centred(self) -> tuple[Tensor, Tensor, Tensor]:
        """Per token `[N]` float64: how far each recorded number lies from the mean of its rollout, and what
        an error may be; and `[B]` bool, rollouts all of whose numbers are as good as equal."""
        y = torch.where(self.taken, self.values, 0.0).double()
        offsets, lengths = self.batch.offsets, self.batch.lengths
        means = segment_sums(y, offsets) / self.counts.clamp(min=1).double()
        off = (y - repeated(means, lengths)) * self.weight
        # Rounding of the largest numbers moves a line everywhere.
        size = -segment_least(-y.abs(), offsets) if y.numel() else self.counts.double()
        each = 2 * self.slack + self.precision.floor * size
        allowed = self.precision.rtol * y.abs() + repeated(each, lengths)
        return off, allowed, segment_sums((off.abs() > allowed).double(), offsets) == 0

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
    def means(self) -> Tensor:
        """Mean recorded number of each rollout, `[B]` float64, NaN where none."""
        if self.per_rollout is not None:
            return self.per_rollout
        shown = torch.where(self.taken, self.values, 0.0)
        return segment_sums(shown, self.batch.offsets) / self.counts.clamp(min=1)

    @cached_property
    def scale(self) -> float:
        """Median size of the recorded numbers that are not 0; 0 where all are."""
        if self._scale is not None:
            return self._scale
        low, high = self.extremes
        size = torch.maximum(low.abs(), high.abs())
        size = size[size > 0]
        return float(size.median()) if size.numel() else 0.0

    @property
    def fine(self) -> float:
        """The finest difference that the recorded numbers can show."""
        return self.precision.floor * self.scale + self.precision.absolute + 1e-12

    @cached_property
    def slack(self) -> Tensor:
        """What an error may be beside the relative tolerance, `[B]` float64."""
        low, high = self.extremes
        size = torch.maximum(low.abs(), high.abs()).nan_to_num(0.0)
        usual = torch.full_like(size, self.scale)
        return 2e-6 * torch.maximum(size, usual) + self.precision.absolute + 1e-12

    def fit(self, found: Tensor, per_token: bool, affine: Affine) -> Fit:
        """Of computed advantages, `[N]` where per token, else `[B]`, once `affine` (`[B]` or `[1]`) is done
        to them. NaN among them agrees with 0 only."""
        if not per_token and (not self.recorded.per_token or self.per_rollout is not None):
            return self._fit_rollouts(affine.apply(found.double()))
        if not self.recorded.per_token:
            kept = torch.where(self.batch.response_mask, found, 0.0)
            mean = segment_sums(kept, self.batch.offsets) / self.batch.unmasked.clamp(min=1)
            return self._fit_rollouts(affine.apply(mean))
        return self._fit_tokens(found if per_token else repeated(found, self.batch.lengths), affine)

    def _fit_rollouts(self, found: Tensor) -> Fit:
        recorded = self.per_rollout if self.recorded.per_token else self.values.double()
        assert recorded is not None
        compared = self.counts > 0
        error = (found.nan_to_num(0.0) - recorded).abs()
        agrees = compared & (error <= self.precision.rtol * recorded.abs() + self.slack)
        agrees &= torch.isfinite(found) | (recorded == 0)
        error = error.masked_fill(~compared, torch.nan)
        kept, weight = error[compared], self.counts[compared]
        squares = (kept.square() * weight).sum() / weight.sum().clamp(min=1)
        return Fit(
            float(kept.max()) if kept.numel() else 0.0,
            weighted_p99(kept, weight),
            float(squares.sqrt()),
            error,
            agrees,
            int(compared.sum()),
        )

    def _fit_tokens(self, found: Tensor, affine: Affine) -> Fit:
        """Span by span, so that each pass finds the numbers in the cache."""
        batch, each, kept = self.batch, [], []
        small, squares, bins = batch.tokens <= EXACT, 0.0, np.zeros(1 << 16, dtype=np.int64)
        none = torch.zeros(batch.rollouts, dtype=torch.float64)
        for rollouts, span in spans(batch):
            error, wrong = self._errors(found[span], affine, rollouts, span)
            squares += float(error.square().sum())
            kept.append(error) if small else np.add(bins, binned(error), out=bins)
            offsets = batch.offsets[rollouts.start : rollouts.stop + 1] - span.start
            bad = segment_sums(wrong.double(), offsets) if bool(wrong.any()) else none[: offsets.shape[0] - 1]
            each.append((-segment_least(-error, offsets), bad))
        compared = self.counts > 0
        total = int(self.counts.sum())
        off, bad = (torch.cat(parts) for parts in zip(*each, strict=True))
        off = off.masked_fill(~compared, torch.nan)
        agrees = compared & (bad == 0)
        greatest = float(off[compared].max()) if total else 0.0
        most = p99(torch.cat(kept)[self.taken]) if small else from_bins(bins, total, batch.tokens - total)
        return Fit(
            greatest, min(most, greatest), (squares / max(total, 1)) ** 0.5, off, agrees, int(compared.sum())
        )

    def _errors(self, found: Tensor, affine: Affine, rollouts: slice, span: slice) -> tuple[Tensor, Tensor]:
        """Errors `[n]` float64 of one span, 0 where nothing is compared, and which of them are too large."""
        lengths = self.batch.lengths[rollouts]
        centre, factor, back = (
            part if part.shape[0] == 1 else repeated(part[rollouts], lengths)
            for part in (affine.centre, affine.factor, affine.back)
        )
        shown = found.double().sub(centre).mul_(factor).add_(back)
        recorded, taken = self.values[span].double(), self.taken[span]
        error = shown.sub(recorded).abs_()
        allowed = recorded.abs().mul_(self.precision.rtol).add_(repeated(self.slack[rollouts], lengths))
        error = torch.where(taken, error, 0.0)
        if bool(torch.isfinite(error.sum())):
            return error, error > allowed
        # What is not a number agrees with 0 only.
        odd = taken & ~torch.isfinite(error)
        error = torch.where(odd, recorded.abs(), error)
        return error, (error > allowed) | (odd & (recorded != 0))
