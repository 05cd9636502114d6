"""The OpenAPI document: complete, true to the answers, and silent about what is not there."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.routing import APIRoute
from pydantic import BaseModel, TypeAdapter

import app
from app.api import ROUTERS
from app.api.schemas import analyses, comparisons, data, estimates, uploads
from app.main import create_app
from app.settings import Settings
from tests.api.conftest import Service

V1 = "/api/v1"

#: Every call that a script may rely on.
CALLS = {
    ("POST", "/uploads"),
    ("GET", "/uploads/{}"),
    ("DELETE", "/uploads/{}"),
    ("GET", "/uploads/{}/events"),
    ("GET", "/uploads/{}/columns"),
    ("POST", "/transfers"),
    ("GET", "/transfers/{}"),
    ("HEAD", "/transfers/{}"),
    ("PATCH", "/transfers/{}"),
    ("DELETE", "/transfers/{}"),
    ("GET", "/transfers/{}/digests"),
    ("POST", "/transfers/{}/complete"),
    ("POST", "/uploads/{}/again"),
    ("GET", "/tokenizers"),
    ("PUT", "/tokenizers/{}"),
    ("GET", "/tokenizers/{}"),
    ("DELETE", "/tokenizers/{}"),
    ("GET", "/column-mappings"),
    ("DELETE", "/column-mappings/{}"),
    ("GET", "/runs"),
    ("GET", "/runs/{}"),
    ("DELETE", "/runs/{}"),
    ("GET", "/runs/{}/steps"),
    ("GET", "/runs/{}/events"),
    ("GET", "/events"),
    ("GET", "/runs/{}/figures/{}"),
    ("GET", "/batches"),
    ("GET", "/batches/{}"),
    ("DELETE", "/batches/{}"),
    ("GET", "/batches/{}/rows"),
    ("GET", "/batches/{}/rollouts"),
    ("GET", "/batches/{}/rollouts/{}"),
    ("GET", "/batches/{}/rollouts/{}/tracks/{}"),
    ("GET", "/batches/{}/groups"),
    ("GET", "/batches/{}/groups/{}"),
    ("GET", "/batches/{}/findings"),
    ("GET", "/batches/{}/figures/{}"),
    ("GET", "/batches/{}/estimates"),
    ("POST", "/batches/{}/estimates"),
    ("GET", "/batches/{}/findings/{}/reproducer"),
    ("GET", "/batches/{}/analyses"),
    ("POST", "/batches/{}/reconcile"),
    ("POST", "/batches/{}/sweeps"),
    ("GET", "/analyses/{}"),
    ("GET", "/analyses/{}/reproducer"),
    ("GET", "/analyses/{}/events"),
    ("POST", "/analyses/{}/cancel"),
    ("GET", "/estimators"),
    ("GET", "/conventions"),
    ("GET", "/estimates/{}"),
    ("DELETE", "/estimates/{}"),
    ("GET", "/estimates/{}/advantages"),
    ("GET", "/estimates/{}/compare/{}"),
    ("POST", "/estimates/{}/cancel"),
    ("GET", "/estimates/{}/events"),
    ("GET", "/figures"),
    ("GET", "/dashboards"),
    ("POST", "/dashboards"),
    ("GET", "/dashboards/{}"),
    ("PATCH", "/dashboards/{}"),
    ("DELETE", "/dashboards/{}"),
    ("POST", "/dashboards/{}/shares"),
    ("GET", "/dashboards/{}/shares"),
    ("GET", "/dashboards/{}/export.html"),
    ("DELETE", "/shares/{}"),
    ("GET", "/jobs"),
    ("GET", "/workers"),
}
SERVICE = {("GET", "/healthz"), ("GET", "/readyz"), ("GET", "/metrics")}

#: Not built yet, so not promised either.
ABSENT = ("comment", "login")


@pytest.fixture(scope="module")
def application() -> FastAPI:
    return create_app(Settings())


@pytest.fixture(scope="module")
def document(application: FastAPI) -> dict[str, Any]:
    return application.openapi()


def calls_of(document: dict[str, Any]) -> list[tuple[str, str, dict[str, Any]]]:
    return [
        (method.upper(), re.sub(r"{[^}]*}", "{}", path), call)
        for path, calls in document["paths"].items()
        for method, call in calls.items()
    ]


def test_every_call_is_there_and_no_other(document: dict[str, Any]) -> None:
    found = {(method, path) for method, path, _ in calls_of(document)}
    assert found == {(method, V1 + path) for method, path in CALLS} | SERVICE


@pytest.mark.parametrize("word", ABSENT)
def test_what_is_not_there_is_not_in_the_document(document: dict[str, Any], word: str) -> None:
    parameters = [p["name"] for _, _, call in calls_of(document) for p in call.get("parameters", [])]
    assert not [name for name in (*document["paths"], *parameters) if word in name.lower()]


def test_every_call_is_described_for_people_and_generators(document: dict[str, Any]) -> None:
    calls = calls_of(document)
    names = [call["operationId"] for _, _, call in calls]
    assert len(set(names)) == len(names)
    for method, path, call in calls:
        where = f"{method} {path}"
        assert (
            len(call["summary"]) > 4 and call["summary"] != call["operationId"].replace("_", " ").title()
        ), where
        assert call["tags"], where
        assert "application/problem+json" in call["responses"]["4XX"]["content"], where
        assert "HTTPValidationError" not in str(call), where
        for parameter in call.get("parameters", []):
            assert parameter.get("description"), f"{where} {parameter['name']}"
        if method == "POST":
            assert "Idempotency-Key" in [parameter["name"] for parameter in call["parameters"]], where


def test_every_json_answer_has_a_schema(document: dict[str, Any]) -> None:
    """All but dashboards' and shares', whose modules describe theirs in words."""
    for method, path, call in calls_of(document):
        if path.startswith(V1) and not path.startswith((f"{V1}/dashboards", f"{V1}/shares")):
            good = [answer for status, answer in call["responses"].items() if status in ("200", "201")]
            for answer in good:
                assert all(kind.get("schema") for kind in answer["content"].values()), f"{method} {path}"


def test_references_lead_somewhere(document: dict[str, Any]) -> None:
    named = set(re.findall(r"'#/components/schemas/([^']+)'", str(document)))
    assert named <= document["components"]["schemas"].keys()


def test_the_version_is_the_package_s() -> None:
    text = (Path(__file__).parents[2] / "pyproject.toml").read_text()
    assert tomllib.loads(text)["project"]["version"] == app.__version__


def test_the_document_is_served(service: Service) -> None:
    shown = service.get("/openapi.json")
    assert shown["info"]["title"] == "Vantage"
    for gone in ("/docs", "/redoc", "/openapi.json"):
        assert service.client.get(gone).status_code == 404


def test_pages_are_not_in_the_document(application: FastAPI, document: dict[str, Any]) -> None:
    routed = {route.path for router in ROUTERS for route in router.routes if isinstance(route, APIRoute)}
    shown = {re.sub(r":path}", "}", path) for path in routed}
    assert document["paths"].keys() <= shown


ANSWERS: list[tuple[str, Any]] = [
    ("/runs", data.RunPage),
    ("/runs/rest", data.RunDetail),
    ("/runs/rest/steps", data.StepPage),
    ("/batches", data.BatchPage),
    ("/batches/{batch}", data.BatchDetail),
    ("/batches/{batch}/rollouts", data.RolloutPage),
    ("/batches/{batch}/rollouts/2", data.RolloutDetail),
    ("/batches/{batch}/rollouts/2/tracks/values", data.Track),
    ("/batches/{batch}/rollouts/2/tracks/response_tokens", data.Track),
    ("/batches/{batch}/groups", data.GroupPage),
    ("/batches/{batch}/groups/code one", data.GroupDetail),
    ("/batches/{batch}/findings", list[data.FindingItem]),
    ("/batches/{batch}/estimates", estimates.EstimatePage),
    ("/batches/{batch}/figures/group_rewards", estimates.PlotlyFigure),
    ("/estimates/{estimate}", estimates.EstimateDetail),
    ("/estimates/{estimate}/advantages?rollout=2", estimates.Advantages),
    ("/estimates/{estimate}/compare/{estimate}", comparisons.Comparison),
    ("/batches/{batch}/analyses", analyses.AnalysisPage),
    ("/estimators", estimates.EstimatorPage),
    ("/conventions", estimates.ConventionPage),
    ("/figures", estimates.FigurePage),
    ("/uploads/{upload}", uploads.Receipt),
    ("/jobs", uploads.JobPage),
    ("/workers", uploads.WorkerPage),
]


@pytest.mark.parametrize(("path", "model"), ANSWERS)
def test_answers_are_as_described(filled: Service, batch: str, path: str, model: Any) -> None:
    """Every field that is described is there, and no other."""
    upload = filled.get(f"/batches/{batch}")["provenance"]["upload"]
    for estimate in filled.get(f"/batches/{batch}/estimates")["items"]:
        body = filled.get(path.format(batch=batch, upload=upload, estimate=estimate["id"]))
        shaped = TypeAdapter(model).validate_python(body, strict=False)
        if isinstance(shaped, BaseModel):
            assert shaped.model_dump(exclude_unset=True).keys() == body.keys()
