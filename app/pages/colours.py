"""`/batches/{id}/rollouts/{index}/colours`: another colour for the text that a page shows already.

A long response is some hundred thousand elements, and a browser takes seconds to lay them out anew. The body
is little-endian: a uint32 with the size of the header, the header (JSON: `head`, the HTML above the tokens,
and `label`, the region's name), then one byte for each element of the text, in order: see `TokenText.keys`.
"""

from fastapi import APIRouter, Request, Response

from app.deps import Reader
from app.pages.rollout import coloured, looked_at
from app.responses import framed
from app.templating import locate, token_head

router = APIRouter()


@router.get("/batches/{batch_id}/rollouts/{index}/colours")
def colours(
    request: Request,
    session: Reader,
    batch_id: str,
    index: int,
    estimate: str | None = None,
    color: str | None = None,
) -> Response:
    """The text's colours for the query of a rollout's page."""
    scene, reading = looked_at(session, batch_id, index, estimate)
    shown = coloured(scene, reading, color)
    head = token_head(shown, locate(request, "runs", below="/colours"))
    body = b"" if shown.text is None else shown.text.keys().tobytes()
    return framed({"head": head, "label": shown.label}, body)
