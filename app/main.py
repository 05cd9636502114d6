"""The web application: what it is made of. Nothing is decided here."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from threading import Event

from anyio import to_thread
from fastapi import FastAPI
from fastapi.routing import APIRoute
from starlette.middleware import Middleware
from starlette.middleware.gzip import DEFAULT_EXCLUDED_CONTENT_TYPES, GZipMiddleware

from app import __version__, jobs
from app.api import ROUTERS
from app.api.document import document
from app.api.idempotency import keep_answers
from app.bells import listening
from app.handlers import HANDLERS, refuse, unforeseen
from app.observe import Metrics, observe
from app.pages import ROUTERS as PAGE_ROUTERS
from app.security.head import answer_head
from app.security.headers import secure_headers
from app.security.hosts import guard
from app.security.limits import limit_bodies
from app.settings import Settings
from app.shared_polls import SharedPolls
from app.static import router as static_router
from app.static import static_files
from app.visits import Visits
from app.waiters import Waiters
from storage.database import make_engine

COMPRESSED_ALREADY = (*DEFAULT_EXCLUDED_CONTENT_TYPES, "application/vnd.apache.parquet")

DESCRIPTION = """\
Look into the advantages of RL fine-tuning rollouts of language models: upload what a trainer dumped,
recompute the advantages under any convention, and read everything that the pages show.

Errors are problem details (RFC 9457) whose `detail` says what to do. Non-finite numbers are `null`, named in
a `nonfinite` map beside them. Lists are pages: pass `next` as `cursor`. Whatever starts a job takes `wait`
(seconds, at most 60). Every POST honours `Idempotency-Key`. Immutable things have an `ETag`.
"""

TAGS = [
    {"name": "uploads", "description": "Hand over files, follow how they are read."},
    {"name": "tokenizers", "description": "What decodes the token ids of uploads."},
    {"name": "runs", "description": "Training runs and their steps."},
    {"name": "batches", "description": "The rollouts of one run, step and split."},
    {"name": "estimates", "description": "Recomputed advantages."},
    {"name": "analyses", "description": "What made recorded advantages, and grids of parameters."},
    {"name": "figures", "description": "Plotly figures of batches and runs."},
    {"name": "dashboards", "description": "Pinned figures, and links that share them."},
    {"name": "service", "description": "Jobs, workers, health."},
]


def create_app(settings: Settings) -> FastAPI:
    """The application on these settings. Its schema is brought up to date when it starts."""
    metrics = Metrics()
    app = FastAPI(
        title="Vantage",
        version=__version__,
        description=DESCRIPTION,
        openapi_tags=TAGS,
        openapi_url="/api/v1/openapi.json",
        docs_url=None,  # they load scripts from elsewhere
        redoc_url=None,
        lifespan=lifespan,
        exception_handlers=dict(HANDLERS),
        generate_unique_id_function=operation_id,
        middleware=[
            Middleware(secure_headers),
            Middleware(observe, metrics, unforeseen),
            Middleware(guard, settings, refuse),
            Middleware(limit_bodies, settings, refuse),
            Middleware(answer_head),
            Middleware(
                GZipMiddleware, minimum_size=1000, compresslevel=1, exclude_content_types=COMPRESSED_ALREADY
            ),
            Middleware(keep_answers, refuse),
        ],
    )
    app.state.settings = settings
    app.state.metrics = metrics
    app.state.closing = Event()
    app.state.visits = Visits()
    app.state.polls = SharedPolls(app.state.closing)
    for router in ROUTERS:
        app.include_router(router)
    for router in PAGE_ROUTERS:
        app.include_router(router, include_in_schema=False)
    app.include_router(static_router)
    app.mount("/static", static_files(), name="static")
    app.openapi = partial(document, app)  # type: ignore[method-assign] # FastAPI documents this override
    return app


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    settings: Settings = app.state.settings
    await to_thread.run_sync(jobs.prepare, settings)
    app.state.engine = make_engine(settings.url)
    app.state.jobs = await to_thread.run_sync(partial(jobs.connect, settings))
    app.state.waiters = Waiters(asyncio.get_running_loop())
    writing = asyncio.create_task(app.state.visits.keep_writing(app.state.engine))
    try:
        with listening(app.state.jobs.bell, app.state.waiters.hear):
            yield
    finally:
        writing.cancel()
        await to_thread.run_sync(app.state.visits.write, app.state.engine)
        app.state.jobs.close()
        app.state.engine.dispose()


def operation_id(route: APIRoute) -> str:
    """The endpoint's function name: what a generated client calls it."""
    return route.name
