"""A page: a dataclass built from the address, a template that shows it, and its JSON beside it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request, Response

from app import templating


@dataclass(frozen=True, slots=True)
class Page:
    """`build` has the signature of an endpoint (path and query parameters, sessions) and gives a `view`.

    section   which part of the header is lit: "runs", "dashboards", "jobs" or ""
    """

    path: str
    template: str
    view: type
    build: Callable[..., Any]
    section: str = ""


def router_of(page: Page) -> APIRouter:
    """`path.json` and `path`. The JSON comes first: `/x/{id}` would take `/x/id.json` for its own."""
    router = APIRouter()
    beside = "/index.json" if page.path == "/" else f"{page.path}.json"
    name = page.template.removeprefix("pages/").removesuffix(".html")

    def as_json(request: Request, view: Annotated[Any, Depends(page.build)]) -> Response:
        return templating.data(request, view)

    def as_html(request: Request, view: Annotated[Any, Depends(page.build)]) -> Response:
        return templating.html(request, page.template, view, page.section)

    router.add_api_route(beside, as_json, name=f"{name}_json", response_class=Response)
    router.add_api_route(page.path, as_html, name=name, response_class=Response)
    return router
