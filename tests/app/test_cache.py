"""Batches kept on the device between estimates."""

import numpy as np
import torch

from app.cache import BatchCache, size_of
from app.tensors import Loaded
from estimators import Batch
from storage import rollouts
from storage.database import read
from tests.working import Place


def loaded(place: Place, tokens: int) -> Loaded:
    batch = Batch(
        offsets=torch.tensor([0, tokens]),
        response_mask=torch.ones(tokens, dtype=torch.bool),
        group=torch.zeros(1, dtype=torch.int64),
        scores=torch.zeros(1, dtype=torch.float64),
    )
    with read(place.engine) as session:
        return Loaded(batch, rollouts.columns(session, "none"), np.zeros(1, np.bool_))


def test_the_least_recently_used_leaves_first(place: Place) -> None:
    one = loaded(place, 1000)
    cache = BatchCache(2 * size_of(one.batch))
    read_again: list[str] = []

    def get(key: str) -> None:
        def load() -> Loaded:
            read_again.append(key)
            return one

        cache.get(key, "cpu", load)

    for key in ("a", "b", "a", "c", "a", "b"):
        get(key)
    assert read_again == ["a", "b", "c", "b"]
    assert sum(cache.sizes.values()) <= cache.limit


def test_what_does_not_fit_is_used_and_not_kept(place: Place) -> None:
    one = loaded(place, 1000)
    cache = BatchCache(10)
    assert cache.get("a", "cpu", lambda: one).batch.tokens == 1000
    assert not cache.held
