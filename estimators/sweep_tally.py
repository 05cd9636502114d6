"""What a sweep keeps of one point's advantages, tile after tile: moments, extremes, a sample, signs."""

from dataclasses import dataclass, field
from math import inf

import torch
from torch import Tensor

from estimators.layout import CHUNK, Tile
from estimators.moments import Moments
from estimators.spread import Signs, Spread, count, quantiles_of, spread_of
from estimators.whitening import Whitening, rollout_affine
from estimators.workspace import buffer


@dataclass(frozen=True, slots=True)
class Piece:
    """One tile of the packed batch; advantages of it are `[slots of the tile]`.

    rewards, values  `[slots of the tile]`, 0 in empty slots
    tails, filled    the chunks with empty slots, and `[tails, 32]` which of theirs hold a token; None: no
                     slot is empty
    picked           slots of the tile that are in the sample for quantiles
    tokens           slots that hold a token
    """

    tile: Tile
    rewards: Tensor
    values: Tensor
    tails: Tensor | None
    filled: Tensor | None
    picked: Tensor
    tokens: int

    def fill(self, found: Tensor, value: Tensor | float | bool) -> None:
        """Put `value` in the empty slots of `found`."""
        if self.tails is not None and self.filled is not None:
            blocks = found.view(-1, CHUNK)
            blocks[self.tails] = torch.where(self.filled, blocks[self.tails], value)


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
        """Count a tile; its empty slots get one of its advantages."""
        piece.fill(found, found[0])
        self.raw = self.raw.merge(moments_of(found, piece))
        low, high = torch.aminmax(found)
        self.least, self.greatest = min(self.least, float(low)), max(self.greatest, float(high))
        self.sample.append(found[piece.picked])

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
    """Of a tile's tokens; the empty slots of `found` hold its first entry. Deviations are from the mean, so
    that a large common offset costs nothing."""
    empty = piece.tile.size - piece.tokens
    pivot = (float(found.sum()) - empty * float(found[0])) / piece.tokens
    deviations = torch.sub(found, pivot, out=buffer("deviations", piece.tile.size, found))
    piece.fill(deviations, 0.0)
    offset = float(deviations.sum()) / piece.tokens
    squares = float(torch.dot(deviations, deviations)) - piece.tokens * offset * offset
    return Moments(piece.tokens, pivot + offset, max(squares, 0.0))


@dataclass(slots=True)
class SignTally:
    """Counts of signs, and of those opposite to the first point's. `first`: that one's signs, a tile each; a
    point that finds none collects its `own`."""

    first: list[Signs]
    negative: int = 0
    positive: int = 0
    flips: int = 0
    own: list[Signs] = field(default_factory=list)

    def add(self, number: int, found: Tensor, piece: Piece, zero: float) -> None:
        """Count the tile of that number: what is below `zero` and what above."""
        if self.first:
            places = [buffer(name, piece.tile.size, found, torch.bool) for name in ("negative", "positive")]
        else:
            places = [torch.empty_like(found, dtype=torch.bool) for _ in range(2)]
        signs = Signs(torch.lt(found, zero, out=places[0]), torch.gt(found, zero, out=places[1]))
        for mask in places:
            piece.fill(mask, False)
        self.negative += count(signs.negative)
        self.positive += count(signs.positive)
        if self.first:
            self.flips += signs.opposite(self.first[number])
        else:
            self.own.append(signs)
