"""Sessions: readers see one moment and cannot write, writers are atomic, and neither stops the other."""

import sqlite3
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import Engine, create_engine, delete, event, select, text
from sqlalchemy.exc import DBAPIError

from storage import arrays, batches, rollouts, runs
from storage.database import (
    INCREMENTAL,
    LOG_PAGES,
    Repeatable,
    checkpoint,
    end_sessions,
    give_back_space,
    insert_new,
    make_engine,
    read,
    upsert,
    write,
)
from storage.models import EstimateRollout, Run
from tests.builders import make_batch, make_estimate, make_run, make_upload


def test_a_reader_cannot_write(engine: Engine) -> None:
    make_run(engine, "kept")
    with read(engine) as session, pytest.raises(DBAPIError, match=r"readonly|read-only"):
        session.execute(delete(Run))
    with write(engine) as session:  # and the connection that it used can write again
        runs.get_or_create(session, "next")
    with read(engine) as session:
        assert runs.page(session).total == 2


def test_a_reader_sees_one_moment(engine: Engine) -> None:
    make_run(engine, "a")
    with read(engine) as session:
        assert runs.page(session).total == 1
        make_run(engine, "b")
        assert runs.page(session).total == 1
    with read(engine) as session:
        assert runs.page(session).total == 2


def test_a_failed_writer_leaves_nothing(engine: Engine) -> None:
    with pytest.raises(RuntimeError, match="stop"), write(engine) as session:
        runs.get_or_create(session, "half")
        raise RuntimeError("stop")
    with read(engine) as session:
        assert runs.page(session).total == 0


def test_what_a_writer_returned_stays_readable(engine: Engine) -> None:
    assert make_run(engine, "a").name == "a"


def test_upsert_replaces_by_key(engine: Engine) -> None:
    estimate = make_estimate(engine, make_batch(engine).id, [1.0, -1.0])
    row = {"estimate_id": estimate.id, "index": 1, "advantage": 5.0}
    with write(engine) as session:
        upsert(session, EstimateRollout, [row, {**row, "index": 2}])
        upsert(session, EstimateRollout, [])
    with read(engine) as session:
        found = session.execute(select(EstimateRollout.index, EstimateRollout.advantage)).all()
    assert sorted(map(tuple, found)) == [(0, 1.0), (1, 5.0), (2, 5.0)]


def test_insert_new_says_whether_it_did(engine: Engine) -> None:
    with write(engine) as session:
        assert insert_new(session, Run, {"id": "a", "name": "same", "created": 0.0}, ["name"])
        assert not insert_new(session, Run, {"id": "b", "name": "same", "created": 1.0}, ["name"])
    with read(engine) as session:
        assert session.execute(select(Run.id)).scalars().all() == ["a"]


def test_two_writers_that_name_the_same_run_meet_in_it(engine: Engine) -> None:
    start, found = threading.Barrier(4), list[str]()

    def writer() -> None:
        start.wait()
        found.append(make_run(engine, "shared").id)

    together(4, writer)
    assert len(found) == 4 and len(set(found)) == 1


def test_readers_go_on_while_a_batch_is_written(engine: Engine) -> None:
    """Eight readers of one batch, while another one comes in group by group: no error, no half batch seen."""
    rewards = [[1.0, 0.0]] * 20
    values = [[float(index)] * 50 for index in range(40)]
    kept = make_batch(engine, rewards, arrays={"values": values})
    done, reads, seen = threading.Event(), list[int](), set[int]()

    def reader() -> None:
        while True:
            last = done.is_set()
            with read(engine) as session:
                found = arrays.flat(session, kept.id, "values")
                assert found is not None and found[0].shape == (2000,)
                seen.update(batch.rollouts for batch in batches.page(session).items)
                reads.append(rollouts.columns(session, kept.id).rollouts)
            if last:
                return

    def writer() -> None:
        try:
            write_in_steps(engine)
        finally:
            done.set()

    together(8, reader, writer)
    assert set(reads) == {40} and len(reads) > 16
    assert seen <= {40, 30} and 30 in seen


def test_a_waiting_writer_gets_its_turn(sqlite_engine: Engine) -> None:
    comes = threading.Event()
    thread = threading.Thread(target=make_run, args=(sqlite_engine, "second"))
    with write(sqlite_engine) as session:
        runs.get_or_create(session, "first")
        event.listen(sqlite_engine, "checkout", lambda *_: comes.set())
        thread.start()
        assert comes.wait(30)  # it has a connection, and now waits for the lock
        runs.get_or_create(session, "third")
    thread.join()
    with read(sqlite_engine) as reader:
        assert {run.name for run in runs.page(reader).items} == {"first", "second", "third"}


def test_checkpoint_cuts_the_log(sqlite_engine: Engine) -> None:
    make_batch(sqlite_engine, [[1.0] * 8] * 20)
    log = f"{sqlite_engine.url.database}-wal"
    with open(log, "rb") as file:
        assert file.read(1)
    checkpoint(sqlite_engine)
    with open(log, "rb") as file:
        assert not file.read(1)
    with read(sqlite_engine) as session:  # in its way
        assert runs.page(session).total == 1
        make_run(sqlite_engine, "more")
        began = time.monotonic()
        checkpoint(sqlite_engine)
        assert time.monotonic() - began < 5


def test_commits_are_durable_on_sqlite(sqlite_engine: Engine) -> None:
    with sqlite_engine.connect() as connection:
        settings = {
            name: connection.execute(text(f"PRAGMA {name}")).scalar_one()
            for name in ("journal_mode", "synchronous", "foreign_keys")
        }
    assert settings == {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1}


def test_what_can_be_written_again_does_not_wait_for_the_disk(sqlite_engine: Engine) -> None:
    engine = make_engine(str(sqlite_engine.url), repeatable=True)
    elsewhere = create_engine(sqlite_engine.url, connect_args={"factory": Repeatable})
    for each in (engine, elsewhere):
        with each.connect() as connection:
            names = ("synchronous", "wal_autocheckpoint")
            found = [connection.execute(text(f"PRAGMA {name}")).scalar_one() for name in names]
        assert found == [1, LOG_PAGES]
        each.dispose()


def test_a_log_that_is_folded_in_is_begun_anew(sqlite_engine: Engine) -> None:
    """Without being cut: nobody waits, and it does not grow with what is written."""
    log = Path(f"{sqlite_engine.url.database}-wal")
    make_batch(sqlite_engine, [[1.0] * 8] * 20)
    checkpoint(sqlite_engine, cut=False)
    size = log.stat().st_size
    assert size > 0
    with sqlite3.connect(
        f"file:{sqlite_engine.url.database}?immutable=1", uri=True
    ) as file:  # without its log
        assert file.execute("SELECT count(*) FROM rollout").fetchone() == (160,)
    make_batch(sqlite_engine, [[1.0] * 8] * 20)
    assert log.stat().st_size < 1.5 * size


def write_in_steps(engine: Engine) -> None:
    upload = make_upload(engine)
    with write(engine) as session:
        run = runs.get_or_create(session, "run")
        batch = batches.begin(session, run_id=run.id, upload_id=upload.id, format="jsonl", step=2)
    for group_no in range(15):
        rows = [{"index": 2 * group_no + i, "row": 1, "digest": "d", "reward": 1.0} for i in range(2)]
        with write(engine) as session:
            batches.add_part(session, batch.id, group_no, 0, {"group_id": str(group_no)}, rows, {})
    with write(engine) as session:
        assert batches.finish(session, batch.id)


def together(count: int, *targets: Callable[[], None]) -> None:
    """Run the first target in `count` threads and the others in one each; raise what any of them raised."""
    errors: list[BaseException] = []

    def guarded(target: Callable[[], None]) -> None:
        try:
            target()
        except BaseException as error:  # to be raised in the test's own thread
            errors.append(error)

    chosen = [targets[0]] * count + list(targets[1:])
    threads = [threading.Thread(target=guarded, args=(target,)) for target in chosen]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def test_the_locks_of_a_frozen_process_can_be_freed(engine: Engine) -> None:
    if engine.dialect.name != "postgresql":
        assert end_sessions(engine, "frozen") == 0
        return
    run = make_run(engine, "held")
    frozen = make_engine(engine.url.render_as_string(hide_password=False), name="frozen")
    with frozen.connect() as connection:
        connection.execute(select(Run).where(Run.id == run.id).with_for_update())
        assert end_sessions(engine, "somebody else") == 0
        assert end_sessions(engine, "frozen") == 1
        with write(engine) as session:  # would wait for ever
            assert session.scalars(select(Run.name).with_for_update()).all() == ["held"]
        connection.invalidate()
    frozen.dispose()


def test_space_is_given_back_by_a_connection_that_a_reader_had(sqlite_engine: Engine) -> None:
    with write(sqlite_engine) as session:
        session.execute(text("CREATE TABLE wide (data BLOB)"))
        session.execute(text("INSERT INTO wide VALUES (zeroblob(20000000))"))
        session.execute(text("DROP TABLE wide"))
    with read(sqlite_engine) as session:
        free = session.scalar(text("PRAGMA freelist_count"))
        mode = session.scalar(text("PRAGMA auto_vacuum"))
    assert (mode, free > 4000) == (INCREMENTAL, True)
    while give_back_space(sqlite_engine):
        # Each connection of the pool has been a reader's since.
        with read(sqlite_engine) as session:
            session.scalar(text("SELECT 1"))
    with read(sqlite_engine) as session:
        assert session.scalar(text("PRAGMA freelist_count")) == 0
