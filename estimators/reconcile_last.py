"""The last advantages per token of a long batch, for the formulas after it that give the very same ones."""

from collections.abc import Callable

import torch

from estimators.batch import Batch
from estimators.estimator import Raw
from estimators.inputs import Inputs
from estimators.mistakes.mistake import Setup
from estimators.reconcile_recorded import Fit
from estimators.registry import ESTIMATORS
from estimators.shape import Shape
from estimators.whitening import Affine


class Last:
    """What was computed last, its shape, and how near it came by what was done to all of it."""

    def __init__(self) -> None:
        self._inputs: Inputs | None = None
        self._raw: Raw | None = None
        self._shape: Shape | None = None
        self._fits: dict[tuple[float, ...], Fit] = {}

    def run(self, setup: Setup) -> Raw | None:
        """The raw advantages in double precision; None for an estimator that does not tell what it sees.

        Raises Refused as the estimator does."""
        estimator = ESTIMATORS[setup.estimator]
        seen = None
        if setup.run is None and estimator.sees is not None:
            seen = estimator.sees(setup.batch, setup.params, torch.float64)
        if seen is None:
            return None
        if self._raw is not None and self._inputs is not None and seen.same(self._inputs):
            return self._raw
        # Let go of first: two at once would be the most memory of a search.
        self._inputs = self._raw = self._shape = None
        raw = estimator.run(setup.batch, setup.params, torch.float64)
        self._inputs, self._raw = seen, Raw(raw.advantages, raw.per_token, apart=raw.apart)
        return self._raw

    def shape(self, batch: Batch, raw: Raw) -> Shape:
        """The shape of the raw advantages over the batch; that of the last ones where nothing differs."""
        kept = self._shape
        if kept is not None and kept.raw is raw and _alike(kept.batch, batch):
            return kept
        found = Shape(batch, raw)
        if raw is self._raw:
            self._shape, self._fits = found, {}
        return found

    def fit(self, shape: Shape, affine: Affine, make: Callable[[], Fit]) -> Fit:
        """How near the shape comes after this map; kept for the last one where the map is one for all."""
        key = _key(affine)
        if shape is not self._shape or key is None:
            return make()
        if key not in self._fits:
            self._fits[key] = make()
        return self._fits[key]


def _alike(one: Batch, other: Batch) -> bool:
    names = ("offsets", "response_mask", "group", "rank", "data_source")
    return all(getattr(one, name) is getattr(other, name) for name in names)


def _key(affine: Affine) -> tuple[float, ...] | None:
    parts = affine.centre, affine.factor, affine.back
    return None if any(part.shape[0] != 1 for part in parts) else tuple(float(part[0]) for part in parts)
