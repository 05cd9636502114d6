"""Agreement with numbers that the frameworks' own code produced, through the REST API: the rows are uploaded,
the estimate is asked for, its advantages are read back."""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import pytest

from app.settings import Settings
from tests.api.conftest import Service, serving
from tests.api.rows import jsonl
from tests.cases import Built, Case, load, paths, requests_of

CASES = {path.stem: load(path) for path in paths()}


@dataclass(frozen=True)
class Asked:
    """The service after all the work, and the estimates of each case: for each request one per step."""

    service: Service
    estimates: dict[str, list[list[str]]]


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory, data_template: Path) -> Iterator[Asked]:
    """All cases uploaded, then all estimates asked for: two rounds of work for all of them together."""
    folder = tmp_path_factory.mktemp("cases")
    shutil.copytree(data_template, folder / "data")
    for service in serving(Settings(data_dir=folder / "data")):
        made = {name: requests_of(case) for name, case in CASES.items()}
        uploads = {name: upload(service, name, each[0]) for name, each in made.items()}
        service.work()
        estimates = {
            name: [
                [ask(service, batch, one) for batch in batches(service, uploads[name], one)] for one in each
            ]
            for name, each in made.items()
        }
        service.work()
        yield Asked(service, estimates)


def upload(service: Service, name: str, made: Built) -> str:
    answer = service.post("/uploads", content=jsonl(made.rows), params={"filename": f"{name}.jsonl"})
    assert answer.status_code in (200, 202), answer.text
    return str(answer.json()["id"])


def batches(service: Service, upload_id: str, made: Built) -> list[str]:
    """The batches of the upload in the order of their steps, every row in one of them."""
    receipt = service.get(f"/uploads/{upload_id}")
    assert receipt["state"] == "succeeded", receipt
    assert receipt["counts"]["accepted"] == len(made.rows), receipt["problems"]
    found = sorted(receipt["batches"], key=lambda batch: int(batch["step"]))
    return [str(batch["id"]) for batch in found]


def ask(service: Service, batch: str, made: Built) -> str:
    answer = service.post(f"/batches/{batch}/estimates", json=made.body)
    assert answer.status_code in (200, 202), answer.text
    return str(answer.json()["id"])


@pytest.mark.parametrize("name", CASES)
def test_agrees_with_the_framework(asked: Asked, name: str) -> None:
    case = CASES[name]
    for made, estimates in zip(requests_of(case), asked.estimates[name], strict=True):
        if made.advantages is None:
            refused(asked, estimates)
            continue
        steps = sorted({row["step"] for row in made.rows})
        for step, estimate in zip(steps, estimates, strict=True):
            places = [i for i, row in enumerate(made.rows) if row["step"] == step]
            for line in read(asked.service, estimate):
                place = places[line["index"]]
                agree(line, "advantages", made.advantages[place], case, made)
                if made.returns is not None:
                    agree(line, "returns", made.returns[place], case, made)


def refused(asked: Asked, estimates: list[str]) -> None:
    """The estimate failed with a sentence for a person."""
    (estimate,) = estimates
    shown = asked.service.get(f"/estimates/{estimate}")
    assert shown["state"] == "failed"
    assert len(shown["error"].split()) > 5 and "unforeseen" not in shown["error"]


def read(service: Service, estimate: str) -> list[dict[str, Any]]:
    """The advantages of every rollout, one object each."""
    shown = service.get(f"/estimates/{estimate}")
    assert shown["state"] == "succeeded", shown
    answer = service.client.get(f"/api/v1/estimates/{estimate}/advantages", params={"format": "jsonl"})
    assert answer.status_code == 200
    return [orjson.loads(line) for line in answer.content.splitlines()]


def agree(line: dict[str, Any], what: str, wanted: Any, case: Case, made: Built) -> None:
    """A number per rollout stands for each of its unmasked tokens. Masked ones: where the case says so."""
    mask = line["response_mask"]
    expected = wanted if isinstance(wanted, list) else [wanted] * len(mask)
    odd = line["nonfinite"].get(what, {})
    mine = [float(odd.get(str(i), value)) for i, value in enumerate(line[what])]
    kept = [i for i in range(len(mask)) if mask[i] or made.on_masked]
    tolerance = case["tolerance"]
    assert [mine[i] for i in kept] == pytest.approx(
        [float(expected[i]) for i in kept], rel=tolerance["rtol"], abs=tolerance["atol"], nan_ok=True
    )
