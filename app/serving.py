"""`serve`: web server and one worker for one machine. `web`: the web server alone, for a team."""

import fcntl
import gc
import os
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event
from types import FrameType

import typer
import uvicorn

from app import example
from app.data_folder import prepare_folder
from app.devices import one_thread
from app.errors import AppError, Busy, Conflict
from app.jobs import connect, prepare
from app.logs import get_logger
from app.main import create_app
from app.security.protocol import BoundedProtocol
from app.settings import Settings, is_loopback
from app.supervisor import Supervisor
from app.transfers import expire
from app.uploads import sweep
from app.worker import reap
from storage.database import make_engine

log = get_logger("vantage.web")

SHUTDOWN_SECONDS = 5
INSECURE = "Everyone who reaches this address can read, change and delete everything (--insecure)."


def serve(settings: Settings, load_example: bool = False) -> None:
    """Serve until a signal. Raises AppError where the address or the data folder may not be used."""
    check_address(settings)
    with data_folder_lock(settings):
        prepare(settings)
        engine, jobs = make_engine(settings.url), connect(settings)
        supervisor = Supervisor(settings, engine, jobs)
        try:
            expire(engine, settings)
            sweep(engine, settings)
            reap(engine, jobs, settings)
            if load_example:
                example.load(engine, jobs, settings)
            supervisor.start()
            run_server(settings)
        finally:
            supervisor.close()
            jobs.close()
            engine.dispose()


def demo(settings: Settings) -> None:
    """`serve` with the example runs loaded."""
    serve(settings, load_example=True)


def web(settings: Settings) -> None:
    """Serve without a worker until a signal."""
    check_address(settings)
    prepare(settings)
    run_server(settings)


def check_address(settings: Settings) -> None:
    """Refuse to be reachable from other machines without a word: there are no accounts yet."""
    if is_loopback(settings.host):
        return
    if settings.insecure:
        warn_insecure(settings)
        return
    raise AppError(
        f"Refusing to bind {settings.host}: Vantage has no accounts yet, so everyone who reaches that "
        "address could read and delete everything. Bind 127.0.0.1 and reach it through an SSH tunnel, or "
        "say --insecure (VANTAGE_INSECURE=true) if only people you trust can reach it."
    )


def warn_insecure(settings: Settings) -> None:
    """In the log and on the terminal; the pages have it as a banner."""
    log.warning("insecure: whoever reaches this address can read and change everything", host=settings.host)
    typer.echo(f"Warning: {settings.host} has no accounts. {INSECURE}", err=True)


@contextmanager
def data_folder_lock(settings: Settings) -> Iterator[None]:
    """Hold the data folder for this process; the kernel lets go of it however the process ends."""
    prepare_folder(settings)
    with open(settings.data_dir / "serve.lock", "a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise Conflict(
                "Another `vantage serve` uses this data folder. Open that one, stop it first, or give this "
                "one a folder of its own with --data-dir."
            ) from error
        yield


def run_server(settings: Settings) -> None:
    """Bind, say the URL, serve until SIGTERM or SIGINT."""
    listener = bind(settings)
    host, port = listener.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    # uvicorn raises the signal again once it has shut down: as SystemExit it lets the callers clean up.
    signal.signal(signal.SIGTERM, leave)
    signal.signal(signal.SIGINT, leave)
    one_thread()
    application = create_app(settings)
    config = uvicorn.Config(
        application,
        http=BoundedProtocol,
        log_config=None,
        lifespan="on",  # a failed start is an error, not a server without a database
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=SHUTDOWN_SECONDS,
    )
    server = Server(config, application.state.closing, f"http://{shown}:{port}")
    gc.freeze()  # what is loaded by now stays: no request waits while it is looked through for garbage
    with listener:
        server.run(sockets=[listener])
    if not server.started:
        raise Busy("The server could not start; its log, on standard error, says why.")


class Server(uvicorn.Server):
    """uvicorn waits for open answers; `closing` tells event streams and waiting requests to end.

    Says its address once it answers there, so that whoever reads it can ask at once.
    """

    def __init__(self, config: uvicorn.Config, closing: Event, address: str) -> None:
        super().__init__(config)
        self.closing = closing
        self.address = address

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=sockets)
        if self.started:
            typer.echo(f"Vantage is at {self.address}")
            sys.stdout.flush()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self.closing.set()
        super().handle_exit(sig, frame)


def bind(settings: Settings) -> socket.socket:
    """A listening socket. Raises Conflict where the port is taken."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((settings.host, settings.port))
    except OverflowError as error:
        listener.close()
        raise AppError(f"--port {settings.port}: a port is a number from 0 to 65535.") from error
    except OSError as error:
        listener.close()
        raise Conflict(
            f"Cannot bind {settings.host}:{settings.port} ({os.strerror(error.errno or 0)}). "
            "Choose another with --port, or --port 0 for a free one."
        ) from error
    return listener


def leave(number: int, _frame: FrameType | None) -> None:
    raise SystemExit(0 if number == signal.SIGTERM else 130)
