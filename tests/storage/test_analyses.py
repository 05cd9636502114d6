"""Analyses: asked for once per batch, kind and request; gone with their batch."""

import threading

from sqlalchemy import Engine

from storage import analyses, batches, jobs
from storage.database import read, write
from storage.models import Analysis
from tests.builders import make_analysis, make_batch


def test_the_same_question_is_the_same_analysis(engine: Engine) -> None:
    one, other = make_batch(engine), make_batch(engine)
    first = make_analysis(engine, one.id, "sweep", {"grid": 1})
    assert make_analysis(engine, one.id, "sweep", {"grid": 1}).id == first.id
    others = [
        make_analysis(engine, one.id, "reconcile", {"grid": 1}),
        make_analysis(engine, one.id, "sweep", {"grid": 2}),
        make_analysis(engine, other.id, "sweep", {"grid": 1}),
    ]
    assert len({first.id, *(each.id for each in others)}) == 4
    with read(engine) as session:
        found = analyses.get(session, first.id)
        assert found is not None
        assert (found.state, found.request, found.result) == ("queued", {"grid": 1}, None)
        assert [row.id for row in analyses.of_batch(session, one.id, "sweep")] == [first.id, others[1].id]
        page = analyses.page(session, one.id, limit=2)
        assert [row.id for row in page.items] == [others[1].id, others[0].id] and page.total == 3
        assert analyses.get(session, "nothing") is None


def test_many_that_ask_at_once_get_one_analysis(engine: Engine) -> None:
    batch = make_batch(engine)
    start, found = threading.Barrier(4), list[str]()

    def asker() -> None:
        start.wait()
        found.append(make_analysis(engine, batch.id).id)

    threads = [threading.Thread(target=asker) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4 and len(set(found)) == 1


def test_an_answer_is_kept_once(engine: Engine) -> None:
    analysis = make_analysis(engine, make_batch(engine).id)
    with write(engine) as session:
        assert jobs.begin_attempt(session, Analysis, analysis.id, "w") == 1
        assert analyses.finish(session, analysis.id, {"verdict": "match"}, device="cpu", timing={"s": 1.5})
        assert not analyses.finish(session, analysis.id, {"verdict": "no_match"})
    with read(engine) as session:
        found = session.get_one(Analysis, analysis.id)
        assert (found.state, found.result, found.device) == ("succeeded", {"verdict": "match"}, "cpu")
        assert found.timing == {"s": 1.5} and found.done == found.total == 1


def test_an_analysis_goes_with_its_batch(engine: Engine) -> None:
    batch = make_batch(engine)
    analysis = make_analysis(engine, batch.id)
    with write(engine) as session:
        assert batches.delete(session, batch.id)
    with read(engine) as session:
        assert analyses.get(session, analysis.id) is None
