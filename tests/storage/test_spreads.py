"""How the advantages of finished estimates spread, step by step of a run."""

from sqlalchemy import Engine, update

from storage import spreads
from storage.database import read, write
from storage.models import Batch, Estimate
from tests.builders import make_batch, make_estimate


def summarised(engine: Engine, batch: Batch, median: float, state: str = "succeeded") -> str:
    """An estimate with such a summary; its id."""
    made = make_estimate(engine, batch.id, [0, 0], state=state, request={"median": median})
    say(engine, made.id, median)
    return made.id


def say(engine: Engine, estimate_id: str, median: float, **changed: float) -> None:
    summary = {"over": "tokens", "count": 2, "mean": 0.0, "quantiles": {"0.5": median}, "groups": {}}
    with write(engine) as session:
        change = update(Estimate).where(Estimate.id == estimate_id)
        session.execute(change.values(summary=summary, **changed))


def medians(engine: Engine, run_id: str, *batches: Batch) -> list[float]:
    with read(engine) as session:
        found = spreads.of_run(session, run_id, [batch.id for batch in batches])
    return [each.quantiles["0.5"] for each in found]


def test_only_finished_estimates_of_the_batches_asked_for(engine: Engine) -> None:
    first, second, other = (make_batch(engine, step=step) for step in (1, 2, 3))
    for batch, median in ((first, 0.25), (second, 0.5), (other, 9.0)):
        summarised(engine, batch, median)
    summarised(engine, second, 7.0, state="failed")
    assert sorted(medians(engine, first.run_id, first, second)) == [0.25, 0.5]
    assert medians(engine, first.run_id, other) == [9.0]
    assert medians(engine, "nothing", first) == []


def test_the_first_of_a_convention_is_last(engine: Engine) -> None:
    batch = make_batch(engine)
    for median in (0.25, 0.5):
        summarised(engine, batch, median)
    assert medians(engine, batch.run_id, batch) == [0.5, 0.25]


def test_an_estimate_that_is_computed_anew_is_read_anew(engine: Engine) -> None:
    batch = make_batch(engine)
    made = summarised(engine, batch, 0.25)
    assert medians(engine, batch.run_id, batch) == [0.25]
    say(engine, made, 4.0, finished=1e9)
    assert medians(engine, batch.run_id, batch) == [4.0]
