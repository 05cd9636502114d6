"""Tables: which column is what, reading one again, and what is remembered of their columns."""

from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request, Response
from pydantic import Field

from app import mapping_view, rereading
from app.api.listing import Cursor, Limit, asked, listed
from app.api.lookup import Id
from app.api.receiving import UploadQuery
from app.api.schemas.tokenizers import MappingPage, TableColumns
from app.api.schemas.uploads import RECEIVED, Receipt
from app.api.strict import StrictRoute
from app.api.uploads import answer
from app.deps import EngineDep, JobsDep, Reader, SettingsDep, Writer
from app.errors import NotFound
from app.responses import respond
from app.security.limits import UPLOADS
from storage import mappings
from storage.models import ColumnMapping

router = APIRouter(tags=["uploads"], route_class=StrictRoute)

MAPPINGS = "/api/v1/column-mappings"
Shape = Annotated[str, Path(max_length=64, description="`shape` of the table.")]


class AgainQuery(UploadQuery):
    """What may be said about reading an upload again."""

    replace: bool = Field(default=False, description="Delete the batches that the first reading made.")


@router.get(f"{UPLOADS}/{{upload_id}}/columns", response_model=TableColumns)
def get_columns(request: Request, session: Reader, settings: SettingsDep, upload_id: Id) -> Response:
    """The columns of an upload's first table: what each is taken for, five rows, and what is open."""
    table = mapping_view.table_of(session, upload_id, settings)
    return respond(request, mapping_view.as_json(table))


@router.post(
    f"{UPLOADS}/{{upload_id}}/again",
    status_code=201,
    response_model=Receipt,
    responses=RECEIVED,
)
def read_upload_again(
    request: Request,
    engine: EngineDep,
    jobs: JobsDep,
    settings: SettingsDep,
    upload_id: Id,
    query: Annotated[AgainQuery, Query()],
) -> Response:
    """Read the same files once more under other options: those given here stand above the upload's own."""
    options = query.options()
    said = {name: getattr(options, name) for name in query.model_fields_set if hasattr(options, name)}
    changes = said | ({"columns": options.columns} if options.columns else {})
    made, created = rereading.again(engine, jobs, settings, upload_id, changes, query.replace)
    return answer(request, engine, made, created)


@router.get(MAPPINGS, response_model=MappingPage)
def list_mappings(request: Request, session: Reader, limit: Limit = 50, cursor: Cursor = None) -> Response:
    """List what is remembered of the columns of tables, the last said first."""
    with asked(cursor):
        page = mappings.page(session, limit, cursor)
    return respond(request, listed(page, item))


def item(found: ColumnMapping) -> dict[str, Any]:
    return {
        "shape": found.shape,
        "columns": found.seen,
        "mapping": found.mapping,
        "decimal": found.decimal,
        "group_by": found.group_by,
        "created": found.created,
        "updated": found.updated,
    }


@router.delete(f"{MAPPINGS}/{{shape}}", status_code=204)
def delete_mapping(session: Writer, shape: Shape) -> Response:
    """Forget the mapping of tables of this shape: the next one is guessed again."""
    if not mappings.delete(session, shape):
        raise NotFound(f"There is no mapping of the shape {shape!r}. GET {MAPPINGS} lists them.")
    return Response(status_code=204)
