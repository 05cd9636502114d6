"""Tokenizers: what decodes the token ids of uploads."""

from typing import Annotated, Any

from fastapi import APIRouter, Path, Request, Response
from fastapi.concurrency import run_in_threadpool

from app import vocabulary
from app.api.listing import Cursor, Limit, asked, listed
from app.api.schemas.tokenizers import TOKENIZER_BODY, TokenizerItem, TokenizerPage
from app.api.strict import StrictRoute
from app.deps import EngineDep, Reader, Writer
from app.errors import NotFound
from app.responses import respond
from app.security.limits import TOKENIZERS
from storage import tokenizers
from storage.database import AnySession, write
from storage.models import Tokenizer

router = APIRouter(tags=["tokenizers"], route_class=StrictRoute)

Name = Annotated[str, Path(max_length=200, description="Its name.")]


@router.put(
    f"{TOKENIZERS}/{{name}}",
    status_code=201,
    response_model=TokenizerItem,
    responses={200: {"description": "It replaced the one of that name.", "model": TokenizerItem}},
    openapi_extra=TOKENIZER_BODY,
)
async def put_tokenizer(request: Request, engine: EngineDep, name: Name) -> Response:
    """Upload a `tokenizer.json`.

    Uploads with `tokenizer=NAME` have their token ids decoded with it, where that gives the responses that
    are recorded. Batches that are there stay as they are.
    """
    content = await request.body()
    return await run_in_threadpool(store, request, engine, name, content)


def store(request: Request, engine: EngineDep, name: str, content: bytes) -> Response:
    vocabulary.check_name(name)
    checked = vocabulary.check(content)
    with write(engine) as session:
        columns = {field: getattr(checked, field) for field in checked.__slots__}
        created = tokenizers.put(session, name, **columns)
        body = item(session, found_of(session, name))
    return respond(request, body, 201 if created else 200, {"Location": f"{TOKENIZERS}/{name}"})


def found_of(session: AnySession, name: str) -> Tokenizer:
    found = tokenizers.get(session, name)
    if found is None:
        raise NotFound(f"There is no tokenizer {name!r}. GET {TOKENIZERS} lists them.")
    return found


def item(session: AnySession, found: Tokenizer) -> dict[str, Any]:
    """The tokenizer as the API shows it."""
    return {
        "name": found.name,
        "sha256": found.sha256,
        "bytes": found.size,
        "model": found.model,
        "decoder": found.decoder,
        "vocabulary": found.vocabulary,
        "special_tokens": found.special,
        "runs": tokenizers.runs_of(session, found.name),
        "created": found.created,
    }


@router.get(TOKENIZERS, response_model=TokenizerPage)
def list_tokenizers(request: Request, session: Reader, limit: Limit = 50, cursor: Cursor = None) -> Response:
    """List the tokenizers, newest first."""
    with asked(cursor):
        page = tokenizers.page(session, limit, cursor)
    return respond(request, listed(page, lambda found: item(session, found)))


@router.get(f"{TOKENIZERS}/{{name}}", response_model=TokenizerItem)
def get_tokenizer(request: Request, session: Reader, name: Name) -> Response:
    """What is known of a tokenizer, and which runs remember it."""
    return respond(request, item(session, found_of(session, name)))


@router.delete(f"{TOKENIZERS}/{{name}}", status_code=204)
def delete_tokenizer(session: Writer, name: Name) -> Response:
    """Delete a tokenizer. Token texts that it decoded stay; runs forget it."""
    found_of(session, name)
    tokenizers.delete(session, name)
    return Response(status_code=204)
