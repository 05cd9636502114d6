"""Figures over REST. What they show is tested where they are made."""

import pytest

from app.figures import FIGURES
from tests.api.conftest import Service, refused

BATCH = [name for name, figure in FIGURES.items() if figure.scope == "batch"]
RUN = [name for name, figure in FIGURES.items() if figure.scope == "run"]


def test_the_list(filled: Service) -> None:
    page = filled.get("/figures")
    assert [item["name"] for item in page["items"]] == list(FIGURES)
    assert all(item["shows"] and item["title"] for item in page["items"])


@pytest.mark.parametrize("name", BATCH)
def test_every_figure_of_a_batch(filled: Service, batch: str, name: str) -> None:
    figure = filled.get(f"/batches/{batch}/figures/{name}")
    said = figure["layout"]["meta"]
    # The batch has no recorded advantages, so one figure can only say so.
    assert bool(figure["data"]) == (name != "recorded_vs_recomputed") and said["sentence"]
    assert bool(said["empty"]) != bool(figure["data"])
    assert "NaN" not in filled.client.get(f"/api/v1/batches/{batch}/figures/{name}").text


@pytest.mark.parametrize("name", RUN)
def test_every_figure_of_a_run(filled: Service, name: str) -> None:
    assert filled.get(f"/runs/rest/figures/{name}")["data"]


def test_a_figure_of_a_chosen_estimate(filled: Service, batch: str) -> None:
    made = {item["convention"]: item["id"] for item in filled.get(f"/batches/{batch}/estimates")["items"]}
    path = f"/batches/{batch}/figures/token_heatmap"
    shown = [filled.get(path, params={"estimate": estimate}) for estimate in made.values()]
    assert shown[0] != shown[1]


def test_a_new_estimate_changes_the_tag_of_a_figure_that_chooses_itself(service: Service) -> None:
    batch = service.upload()["batches"][0]["id"]
    path = f"/api/v1/batches/{batch}/figures/group_advantages"
    before = service.client.get(path).headers["etag"]
    service.estimate(batch, convention="dr_grpo/verl")
    assert service.client.get(path).headers["etag"] != before


@pytest.mark.parametrize(
    ("path", "status", "words"),
    [
        ("/batches/{batch}/figures/nothing", 404, ["no figure", "token_heatmap"]),
        ("/batches/{batch}/figures/reward_over_steps", 404, ["figure of a run"]),
        ("/runs/rest/figures/token_heatmap", 404, ["figure of a batch"]),
        ("/runs/rest/figures/nothing", 404, ["reward_over_steps"]),
        ("/runs/nobody/figures/reward_over_steps", 404, ["no run"]),
        ("/batches/nothing/figures/token_heatmap", 404, ["no batch"]),
        ("/batches/{batch}/figures/token_heatmap?colour=red", 400, ["no option", "colour"]),
        ("/batches/{batch}/figures/token_heatmap?columns=0", 400, ["columns"]),
        ("/batches/{batch}/figures/token_heatmap?columns=many", 400, ["columns"]),
        ("/batches/{batch}/figures/token_heatmap?columns=99999999999999999999", 400, ["columns"]),
        ("/batches/{batch}/figures/token_heatmap?rows=1&rows=2", 400, ["twice"]),
        ("/batches/{batch}/figures/token_heatmap?estimate=nothing", 404, ["no estimate"]),
        ("/batches/{batch}/figures/group_rewards?group=nothing", 404, ["no group"]),
    ],
)
def test_refusals(filled: Service, batch: str, path: str, status: int, words: list[str]) -> None:
    refused(filled.client.get("/api/v1" + path.format(batch=batch)), status, *words)
