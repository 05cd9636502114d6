"""How long a response is, in the best unit that the batch has: tokens, else the characters of its text.

A dump without tokens still has a text per row. Every estimator that gives one number per rollout gives each
of its trained tokens the same one, so drawing that number over the text is exact, as long as all of it is
trained.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from storage import rollouts
from storage.database import ReadSession
from storage.models import Batch
from storage.rollouts import Columns


@dataclass(frozen=True, slots=True)
class Extent:
    """`lengths` `[B]` in storage order, -1 where not known; `unit` "token" or "character"."""

    lengths: NDArray[np.int64]
    unit: str

    @property
    def known(self) -> bool:
        return bool((self.lengths >= 0).any())

    @property
    def note(self) -> str:
        """For a caption: why it is not tokens."""
        return (
            "" if self.unit == "token" else "; no tokens are recorded, so lengths are characters of the text"
        )


def extent(session: ReadSession, batch: Batch, columns: Columns) -> Extent:
    """Tokens where any rollout has them, else characters."""
    if (columns.length >= 0).any():
        return Extent(columns.length, "token")
    return Extent(rollouts.text_lengths(session, batch.id), "character")
