"""What every figure keeps to, on a full batch, a batch of one rollout, and one with nothing in it."""

import importlib
import json
import pkgutil
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine

from app import figures
from app.errors import BadRequest, NotFound
from app.figures import FIGURES
from app.figures.figure import Figure, Option
from app.figures.palette import LIGHT
from storage import batches
from storage.database import make_engine, read
from storage.models import Batch, Run
from tests import databases
from tests.builders import make_batch
from tests.figures.batches import estimate_tokens, five, stepped, two_tasks, with_tokens

Plot = dict[str, Any]
BATCH_FIGURES = sorted(name for name, figure in FIGURES.items() if figure.scope == "batch")
#: Figures for which one rollout, or advantages without a second set of them, is not enough.
NEED_TWO = ("sign_flips", "estimator_agreement", "recorded_vs_recomputed")
RUN_FIGURES = sorted(name for name, figure in FIGURES.items() if figure.scope == "run")


def build(engine: Engine, batch: Batch, name: str, **options: Any) -> Plot:
    """The figure, after checking what holds for all."""
    with read(engine) as session:
        figure = FIGURES[name]
        subject = (
            session.get_one(Run, batch.run_id)
            if figure.scope == "run"
            else batches.get_any(session, batch.id)
        )
        plot = figure.build(session, subject, options)
    keeps_the_rules(plot)
    return plot


def keeps_the_rules(plot: Plot) -> None:
    json.dumps(plot, allow_nan=False)
    assert set(plot) == {"data", "layout"}
    layout = plot["layout"]
    assert layout["template"] == "none" and layout["meta"]["sentence"].endswith(".")
    assert "  " not in layout["meta"]["sentence"] and "nan" not in layout["meta"]["sentence"].lower()
    assert bool(plot["data"]) != bool(layout["meta"]["empty"])
    axes = [part for name, part in layout.items() if re.fullmatch(r"[xy]axis\d*", name)]
    assert len(axes) >= 2 and all(axis["title"]["text"] for axis in axes)
    for trace in plot["data"]:
        assert trace["type"] in ("scatter", "bar", "heatmap", "box") and trace["name"]
        for name in ("x", "y", "z"):
            values = trace.get(name)
            assert not isinstance(values, list) or len(values) <= 100 or isinstance(values[0], str), name
            if isinstance(values, dict):
                assert values["dtype"] in ("f4", "f8", "i1", "i2", "i4", "u1", "u2")
    assert set(colours(plot)) <= set(LIGHT.values())


def colours(part: Any, named: bool = False) -> Iterator[str]:
    if isinstance(part, str) and named:
        yield part
    elif isinstance(part, list | tuple):
        for each in part:
            yield from colours(each, named)
    elif isinstance(part, dict):
        for name, each in part.items():
            yield from colours(each, bool(re.search(r"colors?(scale)?$", name)))


def test_every_figure_of_the_folder_is_registered() -> None:
    modules = [
        importlib.import_module(f"app.figures.{m.name}") for m in pkgutil.iter_modules(figures.__path__)
    ]
    found = {module.FIGURE.name for module in modules if isinstance(getattr(module, "FIGURE", None), Figure)}
    assert found == set(FIGURES) and all(name == figure.name for name, figure in FIGURES.items())
    for figure in FIGURES.values():
        said = figure.describe()
        assert said["shows"].endswith(".") and said["needs"] and said["scope"] in ("batch", "run")
        json.dumps(said)


@dataclass(frozen=True)
class Drawn:
    """Batches that are made once for all tests that only draw them."""

    engine: Engine
    full: Batch
    examples: tuple[Batch, ...]
    single: Batch
    bare: tuple[Batch, ...]


@pytest.fixture(scope="module")
def drawn(sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Drawn]:
    engine = make_engine(databases.copy_sqlite(sqlite_template, tmp_path_factory.mktemp("figures")))
    one = {field: [[0.5]] for field in ("token_level_rewards", "values", "advantages")}
    recorded = {name: "recorded" for name in (*one, "reward", "group_id", "response_mask")}
    full = with_tokens(engine)
    estimate_tokens(engine, full)
    absent = {"reward": "absent", "group_id": "absent", "advantages": "absent"}
    yield Drawn(
        engine,
        full,
        (five(engine), two_tasks(engine)),
        make_batch(engine, [[1.0]], arrays=one | {"response_mask": [[1]]}, fields=recorded, run="single"),
        (
            make_batch(engine, [], fields=absent, run="empty"),
            make_batch(engine, [[None, None]], fields=absent, run="bare"),
        ),
    )
    engine.dispose()


@pytest.mark.parametrize("name", BATCH_FIGURES)
def test_on_a_full_batch(drawn: Drawn, name: str) -> None:
    plot = build(drawn.engine, drawn.full, name)
    assert plot["data"] and plot["layout"]["meta"]["empty"] is None


@pytest.mark.parametrize("name", BATCH_FIGURES)
def test_on_the_examples(drawn: Drawn, name: str) -> None:
    for batch in drawn.examples:
        build(drawn.engine, batch, name)


@pytest.mark.parametrize("name", BATCH_FIGURES)
def test_on_one_rollout_of_one_token(drawn: Drawn, name: str) -> None:
    assert build(drawn.engine, drawn.single, name)["data"] or name in NEED_TWO


@pytest.mark.parametrize("name", BATCH_FIGURES)
def test_with_nothing_recorded_says_so(drawn: Drawn, name: str) -> None:
    for batch in drawn.bare:
        plot = build(drawn.engine, batch, name)
        assert plot["data"] == [] and plot["layout"]["meta"]["empty"].startswith("no ")


@pytest.mark.parametrize("name", sorted(FIGURES))
def test_unknown_options_are_refused(drawn: Drawn, name: str) -> None:
    with pytest.raises(BadRequest, match=r"has no option 'colour'; its options: "):
        build(drawn.engine, drawn.examples[0], name, colour="red")


@pytest.mark.parametrize("name", RUN_FIGURES)
def test_run_figures_on_steps_one_step_and_none(sqlite_engine: Engine, name: str) -> None:
    full = stepped(
        sqlite_engine, [[[1.0, 0.0], [1.0, 1.0]], [[1.0, 0.5], [0.0, 0.0]], [[0.2, 0.1], [1.0, 0.0]]]
    )
    assert build(sqlite_engine, full[0], name)["layout"]["meta"]["steps"] == 3
    assert (
        build(sqlite_engine, stepped(sqlite_engine, [[[1.0, 0.0]]], "one")[0], name)["layout"]["meta"][
            "steps"
        ]
        == 1
    )
    bare = make_batch(sqlite_engine, [[None]], step=None, run="none")
    assert build(sqlite_engine, bare, name)["layout"]["meta"]["empty"] == "no steps recorded for this run."


def test_full_batches_on_both_databases(engine: Engine) -> None:
    batch = with_tokens(engine)
    estimate_tokens(engine, batch)
    for name in BATCH_FIGURES:
        assert build(engine, batch, name)["data"]


def test_options_are_typed_and_bounded(drawn: Drawn) -> None:
    sqlite_engine, batch = drawn.engine, drawn.full
    for options, said in (
        ({"rows": "many"}, "must be a whole number"),
        ({"rows": "0"}, "must be from 1 to 1000"),
    ):
        with pytest.raises(BadRequest, match=said):
            build(sqlite_engine, batch, "token_heatmap", **options)
    with pytest.raises(BadRequest, match="must be one of: none, group, batch, data_source, running"):
        build(sqlite_engine, batch, "sign_flips", to="galaxy")
    with pytest.raises(NotFound, match="no group 'g99'"):
        build(sqlite_engine, batch, "group_rewards", group="g99")
    with pytest.raises(NotFound, match="no estimate 'nope'"):
        build(sqlite_engine, batch, "token_heatmap", estimate="nope")
    number = Option("number", "", 0.2, most=1)
    assert number.value("clip", " 0.25 ") == 0.25
    for text in ("nan", "2", "-1", "wide"):
        with pytest.raises(BadRequest, match="Option 'clip' is"):
            number.value("clip", text)
    flag = Option("flag", "", False)
    assert flag.value("on", "TRUE") is True and flag.value("on", 0) is False


def test_hostile_names_stay_text(sqlite_engine: Engine) -> None:
    name = '<a href="//evil">x</a>\n<b>'
    batch = make_batch(
        sqlite_engine, [[1.0, 0.0]], group_ids=[name], data_sources=[name], fields={"group_id": "recorded"}
    )
    for figure in ("group_rewards", "reward_histogram", "whitening_scopes"):
        assert "<a" not in json.dumps(build(sqlite_engine, batch, figure))
