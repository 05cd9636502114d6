"""`/batches/{id}/rollouts/{index}/numbers`: every track of a stretch of tokens, for the card at the mouse.

The body is little-endian: a uint32 with the size of the header, the header (JSON: `start`, `end`, `tracks`),
zero bytes up to a multiple of four, then the float32 values of each track, one after the other; NaN where
there is none.
"""

from typing import Annotated

import numpy as np
from fastapi import APIRouter, Query, Response

from app.deps import Reader
from app.errors import NotFound
from app.figures import chosen as choosing
from app.figures.tracks import read_tracks
from app.pages.batch import find_batch
from app.responses import framed
from storage import rollouts

MOST = 4096
router = APIRouter()


@router.get("/batches/{batch_id}/rollouts/{index}/numbers")
def numbers(
    session: Reader,
    batch_id: str,
    index: int,
    start: Annotated[int, Query(ge=0)],
    end: Annotated[int, Query(ge=0)],
    estimate: str | None = None,
) -> Response:
    """Tokens `start` … `end` (at most 4,096) of one rollout."""
    batch = find_batch(session, batch_id)
    rollout = rollouts.get(session, batch.id, index)
    if rollout is None:
        raise NotFound(f"The batch has no rollout {index}.")
    chosen = choosing.choose(session, batch, estimate, per_token=True)
    tracks, _ = read_tracks(session, rollout, chosen)
    stop = min(end, start + MOST)
    parts = {track.name: track.values[start:stop] for track in tracks}
    length = max((part.size for part in parts.values()), default=0)
    whole = {name: part for name, part in parts.items() if part.size == length}
    header = {"start": start, "end": start + length, "tracks": list(whole)}
    body = b"".join(np.ascontiguousarray(part, dtype="<f4").tobytes() for part in whole.values())
    return framed(header, body, align=4)
