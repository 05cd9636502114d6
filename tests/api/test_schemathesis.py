"""Requests of every kind that the OpenAPI document allows, and some that it does not, to a store with data in
it: the answers are as the document says, and never a server error.
"""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from httpx2 import Response
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from requests import Request
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.schemas import APIOperation
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from app.main import create_app
from app.settings import Settings
from tests.api.conftest import BASE, Service, serving
from tests.api.test_tokenizers import put

EXAMPLES = int(os.environ.get("VANTAGE_FUZZ_REQUESTS", "4"))
SEED = int(os.environ.get("VANTAGE_FUZZ_SEED", "1"))
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
DOCUMENT = create_app(Settings()).openapi()
SCHEMA = schemathesis.openapi.from_dict(DOCUMENT)
#: Readiness is what it is: without a worker it is 503.
LEFT_OUT = ("/readyz",)


def operations() -> list[APIOperation[Any, Any, Any, Any]]:
    """All but endless streams. What deletes comes last, what lies inside of other things before these."""
    made = list(SCHEMA.get_all_operations())
    found = [result.ok() for result in made if isinstance(result, Ok)]
    assert len(found) == len(made), "an operation of the document cannot be read"
    asked = [one for one in found if not one.path.endswith("/events") and one.path not in LEFT_OUT]
    return sorted(asked, key=lambda one: (one.method == "delete", ORDER.get(one.path, 0)))


#: Runs take batches with them, batches their estimates.
ORDER = {"/api/v1/uploads/{upload_id}": 1, "/api/v1/batches/{batch_id}": 2, "/api/v1/runs/{run}": 3}


@pytest.fixture(scope="module")
def stocked(tmp_path_factory: pytest.TempPathFactory, data_template: Path) -> Iterator[Service]:
    """A batch with its default estimates, and a tokenizer."""
    folder = tmp_path_factory.mktemp("stocked")
    shutil.copytree(data_template, folder / "data")
    for service in serving(Settings(data_dir=folder / "data")):
        service.upload(run="rest")
        put(service)
        yield service


@pytest.fixture(scope="module")
def known(stocked: Service) -> dict[str, str]:
    """What path parameters may be for something to be there: an analysis, a shared dashboard, a mapping …"""
    batch = stocked.get("/batches")["items"][0]["id"]
    csv = b"q,a,score\n1+1,2,1.0\n1+1,3,0.0\n"
    columns = {"column.prompt": "q", "column.response": "a", "column.reward": "score"}
    stocked.upload(csv, filename="rows.csv", run="table", **columns)
    dashboard = stocked.post("/dashboards", json={"title": "kept"}).json()["id"]
    analysis = stocked.post(f"/batches/{batch}/reconcile").json()["id"]
    stocked.work()
    return {
        "batch_id": batch,
        "upload_id": stocked.get(f"/batches/{batch}")["provenance"]["upload"],
        "estimate_id": stocked.get(f"/batches/{batch}/estimates")["items"][0]["id"],
        "other_id": "recorded",
        "analysis_id": analysis,
        "dashboard_id": dashboard,
        "share_id": stocked.post(f"/dashboards/{dashboard}/shares", json={}).json()["id"],
        "shape": stocked.get("/column-mappings")["items"][0]["shape"],
        "run": "rest",
        "index": "2",
        "group_id": "code one",
        "code": stocked.get(f"/batches/{batch}/findings")[0]["code"],
    }


NAMES = {"tracks": "values", "tokenizers": "toy", "runs": "reward_over_steps", "batches": "group_rewards"}


def name_in(path: str) -> str:
    """What `{name}` in this path may be."""
    return next(name for part, name in NAMES.items() if f"/{part}/" in path)


def sent(service: Service, case: Any) -> Response:
    """The answer to the request as it goes over the wire."""
    asked = Request(**case.as_transport_kwargs(base_url=BASE)).prepare()
    body = asked.body if isinstance(asked.body, bytes) else str(asked.body or "").encode()
    headers = [(name.encode("latin-1"), _latin(value)) for name, value in asked.headers.items()]
    return service.client.request(str(asked.method), str(asked.url), content=body, headers=headers)


def _latin(value: str | bytes) -> bytes:
    return value if isinstance(value, bytes) else value.encode("latin-1")


def asks() -> Iterator[Any]:
    """Each operation as described, and oddly where it takes anything that could be odd."""
    for operation in operations():
        yield pytest.param(operation, GenerationMode.POSITIVE, id=operation.label)
        if list(operation.iter_parameters()) or list(operation.body):
            yield pytest.param(operation, GenerationMode.NEGATIVE, id=f"{operation.label} oddly")


@pytest.mark.parametrize(("operation", "mode"), list(asks()))
def test_answers_are_as_the_document_says(
    stocked: Service, known: dict[str, str], operation: APIOperation[Any, Any, Any, Any], mode: GenerationMode
) -> None:
    @seed(SEED)
    @settings(
        max_examples=EXAMPLES, database=None, deadline=None, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(case=operation.as_strategy(generation_mode=mode), there=st.booleans())
    def ask(case: Any, there: bool) -> None:
        if there:
            for name in case.path_parameters:
                case.path_parameters[name] = name_in(case.path) if name == "name" else known.get(name, "x")
        case.query.pop("wait", None)
        case.validate_response(sent(stocked, case), checks=CHECKS)

    ask()
