"""The worker process: takes jobs from the queues, says that it lives, takes over what dead workers held."""

import hashlib
import os
import signal
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import FrameType

from dbos import DBOS, DBOSConfig, DBOSPortableJSONSerializer
from sqlalchemy import Engine

from app.bells import READY, listening
from app.cache import BatchCache
from app.devices import pick_device
from app.jobs import APPLICATION, APPLICATION_VERSION, KINDS, Jobs, Kind, connect, queued_text
from app.lifecycle import bury, release, session_name
from app.logs import get_logger
from app.rousing import rousable
from app.settings import Settings
from app.transfers import expire
from app.upkeep import Upkeep
from app.uploads import sweep
from app.workflows import Context, register
from storage import idempotency, transfers, workers
from storage.database import Repeatable, make_engine, read, write
from storage.models import Worker

log = get_logger("vantage.worker")

#: An enqueued job waits this long at most for a worker that has nothing to do, if it did not hear the bell.
POLL_SECONDS = 0.2
#: Time that a running job gets to reach its next step when the worker is asked to stop.
DRAIN_SECONDS = 5
HOUSEKEEPING_SECONDS = 3600.0
#: A transaction that idles for this many times the silence of a dead worker belongs to a frozen one.
FROZEN_AFTER = 10


def end_frozen_transactions(settings: Settings) -> None:
    """Let PostgreSQL end what this process leaves open when it is frozen in the middle of a transaction.

    Else its locks keep every other worker from taking its jobs over. A dead process needs no such limit: its
    connections close. Read by every connection that is opened from now on; the job engine sets its own limit.
    """
    given = os.environ.get("PGOPTIONS", "")
    limit = frozen_seconds(settings) * 1000
    os.environ["PGOPTIONS"] = f"{given} -c idle_in_transaction_session_timeout={limit:.0f}".strip()


def frozen_seconds(settings: Settings) -> float:
    return FROZEN_AFTER * settings.dead_after_seconds


def executor_name() -> str:
    """Unique per start: two processes of one name would each think the other's jobs theirs."""
    return f"{socket.gethostname()}:{here()}:{os.getpid()}:{os.urandom(4).hex()}"


def here() -> str:
    """Eight characters for the space in which process numbers mean something: this boot, this container."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text()
        namespace = os.readlink("/proc/self/ns/pid")
    except OSError:  # no Linux
        boot, namespace = str(uuid.getnode()), ""
    return hashlib.sha256(f"{boot}{namespace}".encode()).hexdigest()[:8]


def is_gone(worker: Worker) -> bool:
    """Whether the worker certainly runs no more: it was started in this space, and its number is free."""
    place = worker.executor_id.rsplit(":", 3)[1:2]
    return place == [here()] and not alive(worker.pid)


@contextmanager
def working(
    settings: Settings,
    queues: Sequence[Kind] = KINDS,
    executor: str | None = None,
    parent: int | None = None,
) -> Iterator[threading.Event]:
    """Take jobs until the block ends. The event is set when the worker should stop, for instance because its
    `parent` process is gone."""
    executor = executor or executor_name()
    device = pick_device(settings.device)
    engine = make_engine(settings.url, name=session_name(executor), repeatable=True)
    jobs, stop = connect(settings), threading.Event()
    context = Context(engine, jobs, settings, device, executor, BatchCache(settings.cache_bytes))
    with write(engine) as session:  # before it can begin a job: an unknown worker would not be missed
        workers.register(session, executor, socket.gethostname(), os.getpid(), device, list(queues))
    rouse = launch(context, queues)
    upkeep = Upkeep(engine, jobs, settings, executor, context.performing, context.faults)
    beating = (upkeep, parent, stop)
    beat = threading.Thread(target=keep_beating, args=beating, daemon=True, name="heartbeat")
    beat.start()
    log.info("worker ready", executor=executor, device=device, queues=list(queues))
    try:
        with listening(jobs.bell, partial(hear, rouse, queues)):
            yield stop
    finally:
        stop.set()
        beat.join(timeout=settings.heartbeat_seconds)
        context.leaving.set()
        DBOS.destroy(workflow_completion_timeout_sec=DRAIN_SECONDS)
        release(engine, jobs, executor)
        log.info("worker stopped", executor=executor)


def launch(context: Context, queues: Sequence[Kind]) -> Callable[[str], None]:
    """Start the job engine in this process, taking jobs of `queues`. A function that has it look at once, for
    jobs of one queue."""
    config: DBOSConfig = {
        "name": APPLICATION,
        "system_database_url": context.settings.url,
        "executor_id": context.executor,
        "application_version": APPLICATION_VERSION,
        "log_level": "WARNING",
        "serializer": DBOSPortableJSONSerializer(),
        "sys_db_pool_size": 5,
        "sys_db_idle_transaction_timeout_sec": min(60.0, frozen_seconds(context.settings)),
        "run_migrations": False,
    }
    # It records each step after the step's own commit, so it must not wait for the disk either.
    sqlite = context.settings.url.startswith("sqlite")
    config["db_engine_kwargs"] = {
        "hide_parameters": True,
        "connect_args": {"factory": Repeatable}
        if sqlite
        else {"application_name": session_name(context.executor)},
    }
    engine = DBOS(config=config)
    register(context)
    DBOS.listen_queues(list(queues))
    DBOS.launch()
    for queue in queues:
        DBOS.register_queue(
            queue,
            worker_concurrency=context.settings.worker_concurrency,
            polling_interval_sec=POLL_SECONDS,
            on_conflict="always_update",
        )
    return rousable(engine.background_thread_stop_events)


def hear(rouse: Callable[[str], None], queues: Sequence[Kind], text: str) -> None:
    """The bell rings: look for the jobs that it rings for."""
    for queue in queues:
        if text in (READY, queued_text(queue)):
            rouse(queue)


def keep_beating(upkeep: Upkeep, parent: int | None, stop: threading.Event) -> None:
    """The heartbeat thread: say that this worker lives, bury those that do not, set right what is neither
    done nor going on, clean up once an hour."""
    engine, jobs, settings, executor = upkeep.engine, upkeep.jobs, upkeep.settings, upkeep.executor
    housekeeping, heard_since = 0.0, 0.0
    while not stop.is_set():
        if parent is not None and os.getppid() != parent:
            stop.set()
            return
        try:
            with write(engine) as session:
                if not workers.beat(session, executor):
                    log.warning("its jobs were given to others while it was silent", executor=executor)
                    stop.set()
                    return
            reap(engine, jobs, settings, executor, heard_since)
            upkeep.look()
            if time.monotonic() >= housekeeping:
                housekeeping = time.monotonic() + HOUSEKEEPING_SECONDS
                clean_up(engine, jobs, settings)
        except Exception as error:  # the database may be away for a while; the worker must outlive that
            log.warning("heartbeat failed", error=type(error).__name__)
            heard_since = time.time()
        stop.wait(settings.heartbeat_seconds)


def reap(
    engine: Engine, jobs: Jobs, settings: Settings, executor: str | None = None, heard_since: float = 0.0
) -> list[str]:
    """Queue again what silent workers held, and what was held by processes of this host that are gone.

    Since `heard_since` the database could be reached: before, silence was nobody's death.
    """
    with read(engine) as session:
        limit = time.time() - settings.dead_after_seconds
        silent = (
            [worker.executor_id for worker in workers.dead(session, limit)] if heard_since < limit else []
        )
        gone = [worker.executor_id for worker in workers.unreaped(session) if is_gone(worker)]
    names = [name for name in dict.fromkeys(silent + gone) if name != executor]
    for name in names:
        handed = bury(engine, jobs, name)
        log.warning("worker found dead", executor=name, jobs=handed)
    return names


def alive(pid: int) -> bool:
    """Whether a process of this number runs on this host."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def clean_up(engine: Engine, jobs: Jobs, settings: Settings) -> None:
    """Delete what is only kept for a while: read files, orphaned files, uploads that were begun and left,
    records of old jobs, old keys."""
    left = expire(engine, settings)
    files = sweep(engine, settings)
    before = time.time() - settings.job_days * 86400
    records = jobs.forget(before)
    with write(engine) as session:
        idempotency.forget(session, before)
        transfers.forget(session, before)
    log.info("cleaned up", files=files, records=records, transfers=left)


def run(
    settings: Settings, queues: Sequence[Kind], executor: str | None = None, parent: int | None = None
) -> None:
    """The life of `vantage worker`. Leaves through os._exit: a job's thread cannot be interrupted."""
    code = 0
    end_frozen_transactions(settings)
    try:
        with working(settings, queues, executor, parent) as stop:

            def on_signal(_number: int, _frame: FrameType | None) -> None:
                stop.set()

            signal.signal(signal.SIGTERM, on_signal)
            signal.signal(signal.SIGINT, on_signal)
            while not stop.wait(0.5):
                pass
    except Exception as error:
        log.error("worker failed", exc_info=error)
        code = 1
    os._exit(code)
