"""What a sweep keeps of one point's advantages, tile after tile: moments, extremes, a sample, signs."""

from dataclasses import dataclass, field
from math import inf

import numpy as np
import torch
from torch import Tensor

from estimators.layout import Tile
from estimators.moments import Moments
from estimators.spread import Signs, Spread, count, quantiles_of, spread_of
from estimators.whitening import Whitening, rollout_affine
from estimators.workspace import buffer

#: Moments are taken in one pass where it loses at most this factor of precision.
CANCELLED = 16.0


@dataclass(frozen=True, slots=True)
class Piece:
    """One tile of the packed batch; advantages of it are `[slots of the tile]`.

    rewards, values  `[slots of the tile]`, 0 in empty slots
    empty            which slots hold no token, ascending
    picked           slots that are in the sample for quantiles
    """

    tile: Tile
    rewards: Tensor
    values: Tensor
    empty: Tensor
    picked: Tensor

    @property
    def tokens(self) -> int:
        """Slots that hold a token."""
        return self.tile.size - int(self.empty.shape[0])


@dataclass(frozen=True, slots=True)
class Line:
    """y = (x − centre)·factor + back, with factor > 0: what a batch-wide whitening does."""

    centre: float = 0.0
    factor: float = 1.0
    back: float = 0.0

    @property
    def zero(self) -> float:
        """The x whose y is 0."""
        return self.centre - self.back / self.factor

    def at(self, x: float) -> float:
        return (x - self.centre) * self.factor + self.back


def line_of(raw: Moments, setting: Whitening) -> Line:
    """What the setting does to advantages of these moments. Refuses as `whitening.rollout_affine` does."""
    if setting.scope == "none":
        return Line()
    mean, m2, weight = (torch.tensor([part], dtype=torch.float64) for part in (raw.mean, raw.m2, raw.count))
    found = rollout_affine(mean, m2, weight, None, setting)
    return Line(float(found.centre[0]), float(found.factor[0]), float(found.back[0]))


@dataclass(slots=True)
class Tally:
    """Of the advantages of one point before whitening."""

    raw: Moments = field(default_factory=Moments)
    least: float = inf
    greatest: float = -inf
    sample: list[Tensor] = field(default_factory=list)

    def add(self, found: Tensor, piece: Piece) -> None:
        """Count a tile; its empty slots get its first advantage, which is nothing new."""
        found.index_fill_(0, piece.empty, float(found[0]))
        self.raw = self.raw.merge(moments_of(found, piece))
        low, high = _extremes(found)
        self.least, self.greatest = min(self.least, low), max(self.greatest, high)
        self.sample.append(torch.index_select(found, 0, piece.picked))

    def spread(self, line: Line, signs: "SignTally") -> Spread:
        """The spread after whitening by `line`."""
        if not self.sample:
            return spread_of(torch.empty(0))
        sample, tokens = torch.cat(self.sample), int(self.raw.count)
        return Spread(
            Moments(tokens, line.at(self.raw.mean), self.raw.m2 * line.factor**2),
            line.at(self.least),
            line.at(self.greatest),
            tuple(line.at(each) for each in quantiles_of(sample)),
            sample.numel(),
            signs.negative,
            tokens - signs.negative - signs.positive,
            signs.positive,
            0,
        )


def moments_of(found: Tensor, piece: Piece) -> Moments:
    """Of a tile's tokens; the empty slots of `found` hold its first entry."""
    tokens, empty, first = piece.tokens, piece.tile.size - piece.tokens, float(found[0])
    mean = (float(found.sum()) - empty * first) / tokens
    every = float(torch.dot(found, found))
    squares = every - empty * first * first - tokens * mean * mean
    if squares * CANCELLED >= every:
        return Moments(tokens, mean, squares)
    # A large common offset, or one far entry: from the mean.
    deviations = torch.sub(found, mean, out=buffer("deviations", piece.tile.size, found))
    deviations.index_fill_(0, piece.empty, 0.0)
    offset = float(deviations.sum()) / tokens
    squares = float(torch.dot(deviations, deviations)) - tokens * offset * offset
    return Moments(tokens, mean + offset, max(squares, 0.0))


def _extremes(found: Tensor) -> tuple[float, float]:
    """The least and the greatest; on the CPU numpy takes half as long for both as torch."""
    if found.device.type == "cpu":
        return float(found.numpy().min()), float(found.numpy().max())
    low, high = torch.aminmax(found)
    return float(low), float(high)


def _compared(found: Tensor, zero: float, out: Signs) -> Signs:
    """What is below `zero` and what above, into `out`; numpy takes a tenth of torch's time."""
    if found.device.type == "cpu":
        np.less(found.numpy(), zero, out=out.negative.numpy())
        np.greater(found.numpy(), zero, out=out.positive.numpy())
    else:
        torch.lt(found, zero, out=out.negative)
        torch.gt(found, zero, out=out.positive)
    return out


@dataclass(slots=True)
class SignTally:
    """Counts of signs, and of those opposite to the first point's. `first`: that one's signs, a tile each; a
    point that finds none collects its `own`. Empty slots are counted with their sign and taken off again."""

    first: list[Signs]
    negative: int = 0
    positive: int = 0
    flips: int = 0
    own: list[Signs] = field(default_factory=list)

    def add(self, number: int, found: Tensor, piece: Piece, zero: float) -> None:
        """Count the tile of that number: what is below `zero` and what above."""
        size, empty = piece.tile.size, piece.tile.size - piece.tokens
        if self.first:
            place = Signs(*(buffer(name, size, found, torch.bool) for name in ("negative", "positive")))
        else:
            place = Signs(*(torch.empty_like(found, dtype=torch.bool) for _ in range(2)))
        signs = _compared(found, zero, place)
        below, above = bool(signs.negative[0]), bool(signs.positive[0])
        self.negative += count(signs.negative) - empty * below
        self.positive += count(signs.positive) - empty * above
        if not self.first:
            self.own.append(signs)
            return
        then = self.first[number]
        opposite = (below and bool(then.positive[0])) or (above and bool(then.negative[0]))
        self.flips += signs.opposite(then) - empty * opposite
