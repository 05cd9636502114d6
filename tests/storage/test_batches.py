"""Batches: invisible until ready, then immutable; deleted with all that hangs on them."""

import statistics
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Engine, func, select

from storage import arrays, batches, estimates, groups, rollouts, runs, uploads
from storage.database import read, write
from storage.models import Base, Batch, Prompt, Upload
from tests.builders import make_batch, make_estimate, make_run, make_upload


def rows_in(engine: Engine) -> dict[str, int]:
    """Rows per table, empty tables left out."""
    with read(engine) as session:
        counts = {
            name: session.execute(select(func.count()).select_from(table)).scalar_one()
            for name, table in Base.metadata.tables.items()
        }
    return {name: count for name, count in counts.items() if count}


def test_a_batch_is_seen_only_when_ready(engine: Engine) -> None:
    batch = make_batch(engine, [[1, 0]], lengths=[3, 4], ready=False)
    with read(engine) as session:
        assert batches.get(session, batch.id) is None
        assert batches.get_any(session, batch.id) is not None
        assert batches.page(session).total == 0
        assert runs.steps(session, batch.run_id) == []
        assert runs.page(session).items[0].batches == 0
        assert uploads.batches_of(session, batch.upload_id) == []
        assert rollouts.columns(session, batch.id).rollouts == 2  # for whoever computes its statistics
    with write(engine) as session:
        assert batches.finish(session, batch.id, fields={"response_mask": "recorded"}, statistics={"a": 1})
    with read(engine) as session:
        found = batches.get(session, batch.id)
        assert found is not None
        assert (found.rollouts, found.groups, found.tokens) == (2, 1, 7)
        assert (found.fields, found.statistics) == ({"response_mask": "recorded"}, {"a": 1})
        assert [b.id for b in batches.page(session).items] == [batch.id]
        assert [b.id for b in uploads.batches_of(session, batch.upload_id)] == [batch.id]


def test_finishing_happens_once(engine: Engine) -> None:
    batch = make_batch(engine, [[1, 0]], statistics={"first": True})
    with write(engine) as session:
        assert not batches.finish(session, batch.id, statistics={"second": True})
        assert not batches.finish(session, "nothing")
    with read(engine) as session:
        assert session.get_one(Batch, batch.id).statistics == {"first": True}
        assert session.get_one(Upload, batch.upload_id).batches_made == 1


def test_findings_leave_their_codes_for_lists(engine: Engine) -> None:
    findings = [
        {"code": "singleton_groups", "severity": "warning", "evidence": {"n": 1}},
        {"code": "sign_flips", "severity": "info"},
    ]
    batch = make_batch(engine, findings=findings)
    with read(engine) as session:
        (step,) = runs.steps(session, batch.run_id)
        assert step.codes == {"singleton_groups": "warning", "sign_flips": "info"}
        assert session.get_one(Batch, batch.id).findings == findings


def test_group_statistics_count_scored_rollouts_only(engine: Engine) -> None:
    batch = make_batch(engine, [[1.0, 0.6, 0.2, 0.0, 0.7], [0.5, None, None], [None], [0.1] * 8])
    with read(engine) as session:
        found = [batches.group(session, batch.id, number) for number in range(4)]
    described = [
        (g.size, g.scored, g.reward_mean, g.reward_std, g.reward_min, g.reward_max) for g in found if g
    ]
    assert described[0][:2] == (5, 5)
    assert described[0][2:] == pytest.approx((0.5, 0.4, 0.0, 1.0))
    assert described[1] == (3, 1, 0.5, None, 0.5, 0.5)
    assert described[2] == (1, 0, None, None, None, None)
    assert described[3] == (8, 8, 0.1, 0.0, 0.1, 0.1)  # exactly no spread, whatever the rounding of a sum


@given(st.lists(st.one_of(st.none(), st.floats(-5e307, 5e307)), max_size=9))
def test_group_statistics_of_any_rewards(rewards: list[float | None]) -> None:
    found = groups.statistics(rewards)
    scored = [reward for reward in rewards if reward is not None]
    assert (found["size"], found["scored"]) == (len(rewards), len(scored))
    if not scored:
        assert {found[name] for name in found if name.startswith("reward")} == {None}
        return
    slack = 1e-9 * max(abs(reward) for reward in scored) + 1e-320
    assert (found["reward_min"], found["reward_max"]) == (min(scored), max(scored))
    assert found["reward_mean"] == pytest.approx(statistics.mean(scored), rel=1e-9, abs=slack)
    if len(scored) == 1:
        assert found["reward_std"] is None
    elif min(scored) == max(scored):
        assert found["reward_std"] == 0.0
    else:
        assert found["reward_std"] == pytest.approx(statistics.stdev(scored), rel=1e-6, abs=slack)


def test_a_group_in_parts_has_the_statistics_of_all(engine: Engine) -> None:
    upload, run = make_upload(engine), make_run(engine)
    with write(engine) as session:
        batch = batches.begin(session, run_id=run.id, upload_id=upload.id, format="jsonl")
        for part, reward in enumerate((1.0, 0.0, 0.5)):
            row = {"index": part, "row": 1, "digest": "d", "reward": reward}
            prompt = {"group_id": "g"} if part == 0 else None
            batches.add_part(session, batch.id, 0, part, prompt, [row], {})
        assert batches.finish(session, batch.id)
    with read(engine) as session:
        group = batches.group(session, batch.id, "g")
        assert group is not None
        assert (group.size, group.scored, group.reward_mean, group.reward_std) == (3, 3, 0.5, 0.5)


@pytest.mark.parametrize(
    ("part", "prompt", "rollout", "values", "message"),
    [
        (0, None, {}, [None], "prompt comes with its first part"),
        (1, {"group_id": "g"}, {}, [None], "prompt comes with its first part"),
        (0, {"group_id": "g"}, {}, [None, None], "values has 2 entries for 1 rollouts"),
        (0, {"group_id": "g"}, {"score": 1}, [None], "not columns of a rollout: score"),
        (0, {"group_id": "g"}, {"slot": 1}, [None], "not columns of a rollout: slot"),
    ],
)
def test_a_part_that_does_not_fit_is_refused(
    sqlite_engine: Engine, part: int, prompt: Any, rollout: Any, values: list[None], message: str
) -> None:
    batch = make_batch(sqlite_engine, [], ready=False)
    row = {"index": 0, "row": 1, "digest": "d", **rollout}
    with write(sqlite_engine) as session, pytest.raises(ValueError, match=message):
        batches.add_part(session, batch.id, 0, part, prompt, [row], {"values": values})


@pytest.mark.parametrize("split", ["", "x" * 65, "a\nb"])
def test_a_split_without_a_proper_name_is_refused(sqlite_engine: Engine, split: str) -> None:
    with pytest.raises(ValueError, match="split's name"):
        make_batch(sqlite_engine, split=split)


def test_groups_are_sorted_and_paged(engine: Engine) -> None:
    batch = make_batch(
        engine, [[0, 1], [0.5, 0.5, 0.5], [None], [0.9, 0.7]], prompts=["p" * 500, "b", None, "d"]
    )
    estimate = make_estimate(engine, batch.id, [-1, 1, 0, 0, 0, float("nan"), 3, -2])
    expected = {
        "group_no": [0, 1, 2, 3], "-group_no": [3, 2, 1, 0], "reward_mean": [0, 1, 3, 2],
        "-reward_mean": [3, 0, 1, 2], "-reward_std": [0, 3, 1, 2], "size": [2, 0, 3, 1],
        "-size": [1, 0, 3, 2], "-total_abs": [3, 0, 1, 2],
    }  # fmt: skip
    with read(engine) as session:
        for sort, order in expected.items():
            seen, cursor, total = list[int](), None, 0
            while True:
                page = batches.groups(session, batch.id, sort, 1, cursor, estimate.id)
                seen += [row.group_no for row in page.items]
                cursor, total = page.next, page.total
                if cursor is None:
                    break
            assert (sort, seen, total) == (sort, order, 4)
        first, *_, last = batches.groups(session, batch.id, estimate_id=estimate.id).items
        assert (first.excerpt, first.total_abs, first.size) == ("p" * 300, 2.0, 2)
        assert (last.excerpt, last.total_abs) == ("d", 5.0)
        assert batches.groups(session, batch.id).items[0].total_abs is None
        with pytest.raises(ValueError, match="cannot sort by 'total_abs'"):
            batches.groups(session, batch.id, "total_abs")


def test_a_group_is_found_by_number_or_id(engine: Engine) -> None:
    batch = make_batch(engine, [[1], [0]], group_ids=["1", "\x00weird \ud800"], prompts=["one", "two"])
    with read(engine) as session:
        by = [batches.group(session, batch.id, key) for key in (0, "1", 1, "\x00weird \ud800")]
        assert [group.prompt for group in by if group] == ["one", "one", "two", "two"]
        assert batches.group(session, batch.id, 2) is None
        assert batches.group(session, batch.id, 2**63) is None
        assert batches.get(session, "\x00") is None
        assert batches.group(session, batch.id, "g0") is None


def test_batches_are_listed_newest_first_and_by_run(engine: Engine) -> None:
    made = [make_batch(engine, run=run, step=step) for step, run in enumerate("abab")]
    with read(engine) as session:
        assert [b.step for b in batches.page(session, limit=3).items] == [3, 2, 1]
        page = batches.page(session, run_id=made[0].run_id)
        assert ([b.step for b in page.items], page.total) == ([2, 0], 2)


def test_deleting_a_batch_takes_everything_of_it_and_nothing_else(engine: Engine) -> None:
    fields = {"values": [[1.0], [2.0]]}
    kept = make_batch(engine, [[1, 0]], arrays=fields, step=1)
    make_estimate(engine, kept.id, [1.0, -1.0])
    before = rows_in(engine)
    gone = make_batch(engine, [[1, 0]], arrays=fields, step=2)
    make_estimate(engine, gone.id, [1.0, -1.0])
    with write(engine) as session:
        estimates.put_moments(session, gone.id, "key", {"token": (2, 0.0, 2.0)})
    with write(engine) as session:
        assert batches.delete(session, gone.id)
        assert not batches.delete(session, gone.id)
    assert rows_in(engine) == before | {"upload": 2}
    with read(engine) as session:
        assert arrays.flat(session, kept.id, "values") is not None


def test_deleting_a_run_takes_its_batches(engine: Engine) -> None:
    batch = make_batch(engine, [[1, 0]], arrays={"values": [[1.0], [2.0]]})
    make_estimate(engine, batch.id, [1.0, -1.0])
    with write(engine) as session:
        assert runs.delete(session, batch.run_id)
        assert not runs.delete(session, batch.run_id)
    assert rows_in(engine) == {"upload": 1}


def test_what_an_interrupted_ingest_left_is_discarded(engine: Engine) -> None:
    upload = make_upload(engine, state="running")
    done = make_batch(engine, upload=upload, step=1)
    make_batch(engine, upload=upload, step=2, ready=False)
    other = make_batch(engine, ready=False)
    with write(engine) as session:
        assert batches.discard_partial(session, upload.id) == 1
        assert batches.discard_partial(session, upload.id) == 0
    with read(engine) as session:
        assert set(session.execute(select(Batch.id)).scalars()) == {done.id, other.id}
        assert set(session.execute(select(Prompt.batch_id)).scalars()) == {done.id, other.id}
