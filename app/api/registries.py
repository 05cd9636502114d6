"""What can be computed: estimators and the conventions built on them."""

from typing import Any

from fastapi import APIRouter, Request, Response

from app.api.listing import whole
from app.api.schemas.estimates import ConventionPage, EstimatorPage
from app.api.strict import StrictRoute
from app.responses import respond
from estimators import (
    CONVENTIONS,
    ESTIMATORS,
    GROUPINGS,
    Convention,
    Estimator,
    Whitening,
    params_schema,
    settings_schema,
    settings_to_dict,
)

router = APIRouter(prefix="/api/v1", tags=["estimates"], route_class=StrictRoute)


@router.get("/estimators", response_model=EstimatorPage)
def list_estimators(request: Request) -> Response:
    """List the estimators: formula, paper, needed fields, parameters with defaults, conventions."""
    items = [estimator_item(estimator) for estimator in ESTIMATORS.values()]
    shared = {"whitening": settings_schema(Whitening), "groupings": list(GROUPINGS)}
    return respond(request, {**whole(items), **shared})


def estimator_item(estimator: Estimator) -> dict[str, Any]:
    return {
        "name": estimator.name,
        "sentence": estimator.sentence,
        "formula": estimator.formula,
        "paper": estimator.paper,
        "needs": list(estimator.needs),
        "params": params_schema(estimator),
        "conventions": [c.name for c in CONVENTIONS.values() if c.estimator == estimator.name],
    }


@router.get("/conventions", response_model=ConventionPage)
def list_conventions(request: Request) -> Response:
    """List the conventions: an estimator with the parameters and the whitening of one framework."""
    return respond(request, whole([convention_item(convention) for convention in CONVENTIONS.values()]))


def convention_item(convention: Convention) -> dict[str, Any]:
    return {
        "name": convention.name,
        "estimator": convention.estimator,
        "params": settings_to_dict(convention.params),
        "whitening": settings_to_dict(convention.whitening),
        "grouping": convention.grouping,
        "framework": convention.framework,
        "version": convention.version,
        "note": convention.note,
    }
