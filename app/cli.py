"""The `vantage` command."""

import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from threading import Event
from typing import Annotated, Any

import typer
from sqlalchemy import Engine

from app import local, serving
from app import watch as watching
from app.errors import AppError
from app.jobs import KINDS, Kind, prepare
from app.logs import configure
from app.remote import Remote, address
from app.settings import Settings
from app.startup_errors import sentence
from app.take_out import take_out
from app.uploads import Options
from app.worker import run
from storage.check import verify
from storage.database import make_engine, read, refuse_newer, schema_is_current

app = typer.Typer(
    help="Look into the advantages of RL fine-tuning rollouts. Every setting is an environment variable "
    "VANTAGE_<NAME>; an option here wins over it.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

DataDir = Annotated[Path | None, typer.Option(help="Folder for the embedded database and uploaded files.")]
DatabaseUrl = Annotated[str | None, typer.Option(help="sqlite:///path or postgresql://…")]
Host = Annotated[str | None, typer.Option(help="Address to bind.")]
Port = Annotated[int | None, typer.Option(help="Port to bind; 0 takes a free one.")]
Insecure = Annotated[bool | None, typer.Option("--insecure", help="Allow another address than loopback.")]
Format = StrEnum("Format", ["parquet", "npz", "jsonl", "arrow", "csv"])
DEFAULT_URL = "http://127.0.0.1:8000"

Device = Annotated[str | None, typer.Option(help="auto, cpu, cuda, cuda:K or mps.")]


def settings_from(**options: Any) -> Settings:
    """The settings of the environment with the options that were given."""
    return Settings(**{name: value for name, value in options.items() if value is not None})


def quiet(settings: Settings) -> Settings:
    """The same settings, logging only warnings unless a level was asked for: the address has to stand out."""
    if "log_level" in settings.model_fields_set:
        return settings
    return settings.model_copy(update={"log_level": "WARNING"})


@app.command()
def serve(
    data_dir: DataDir = None,
    database_url: DatabaseUrl = None,
    host: Host = None,
    port: Port = None,
    insecure: Insecure = None,
    device: Device = None,
) -> None:
    """Serve the pages and the API, with one worker. For one machine."""
    settings = settings_from(
        data_dir=data_dir, database_url=database_url, host=host, port=port, insecure=insecure, device=device
    )
    configure("web", settings.log_level)
    serving.serve(settings)


@app.command()
def web(
    data_dir: DataDir = None,
    database_url: DatabaseUrl = None,
    host: Host = None,
    port: Port = None,
    insecure: Insecure = None,
) -> None:
    """Serve the pages and the API without a worker. Any number of them may share one PostgreSQL."""
    settings = settings_from(
        data_dir=data_dir, database_url=database_url, host=host, port=port, insecure=insecure
    )
    configure("web", settings.log_level)
    serving.web(settings)


@app.command()
def worker(
    data_dir: DataDir = None,
    database_url: DatabaseUrl = None,
    device: Device = None,
    queues: Annotated[str, typer.Option(help="Queues to take jobs from, comma separated.")] = ",".join(KINDS),
) -> None:
    """Run ingests and estimates. Start as many as there are devices; each takes jobs on its own."""
    settings = settings_from(data_dir=data_dir, database_url=database_url, device=device)
    configure("worker", settings.log_level)
    chosen = queue_names(queues)
    prepare(settings)
    run(settings, chosen)


def queue_names(text: str) -> Sequence[Kind]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    chosen = [kind for kind in KINDS if kind in names]
    if not names or len(chosen) != len(set(names)):
        raise AppError(f"--queues {text!r}: there are {' and '.join(KINDS)}.")
    return chosen


@app.command()
def ingest(
    files: Annotated[
        list[Path], typer.Argument(exists=True, readable=True, help="Files, or folders of files.")
    ],
    run_name: Annotated[str | None, typer.Option("--run", help="Run that the rollouts belong to.")] = None,
    step: Annotated[int | None, typer.Option(help="Training step, where the file has none.")] = None,
    split: Annotated[str | None, typer.Option(help="train, val, …")] = None,
    format: Annotated[str, typer.Option(help="Name of the format; auto looks at the content.")] = "auto",
    group_by: Annotated[str | None, typer.Option(help="prompt, stride:N or a column.")] = None,
    data_dir: DataDir = None,
    database_url: DatabaseUrl = None,
) -> None:
    """Take files in as one upload and wait for the receipt; beside a running server, or without one."""
    configure("ingest", "WARNING")
    settings = settings_from(data_dir=data_dir, database_url=database_url)
    prepare(settings)
    options = Options(run=run_name, step=step, split=split, format=format, group_by=group_by)
    receipt = local.ingest(settings, files, options)
    for line in local.describe(receipt):
        typer.echo(line)
    raise typer.Exit(0 if receipt["state"] == "succeeded" else 1)


@app.command()
def watch(
    folder: Annotated[Path, typer.Argument(help="The trainer's dump folder; made if it is not there yet.")],
    run_name: Annotated[str | None, typer.Option("--run", help="Run; default: the folder's name.")] = None,
    pattern: Annotated[str, typer.Option(help="Names of the files to take, as in a shell: '*.jsonl'.")] = "*",
    url: Annotated[str, typer.Option(help="The server.")] = DEFAULT_URL,
    token: Annotated[
        str | None, typer.Option(envvar="VANTAGE_TOKEN", help="Its token, if it wants one.")
    ] = None,
    split: Annotated[str | None, typer.Option(help="train, val, …")] = None,
    format: Annotated[str, typer.Option(help="Name of the format; auto looks at the content.")] = "auto",
    group_by: Annotated[str | None, typer.Option(help="prompt, stride:N or a column.")] = None,
    quiet: Annotated[
        float, typer.Option(min=0.05, help="Seconds without a change: the file is written.")
    ] = 2.0,
    folders: Annotated[bool, typer.Option("--folders", help="Each folder in it is one upload.")] = False,
    poll: Annotated[
        bool, typer.Option("--poll", help="For network disks, which do not tell of changes.")
    ] = False,
    data_dir: DataDir = None,
) -> None:
    """Follow a dump folder: each file goes to the server once, when its writer is done with it."""
    configure("watch", "WARNING")
    address(url)
    settings = settings_from(data_dir=data_dir)
    folder.mkdir(parents=True, exist_ok=True)
    name = run_name or folder.resolve().name
    watched = watching.Watched(folder, name, pattern, quiet, split, format, group_by, folders, poll)
    memory = watching.Memory(watching.state_path(settings, watched, url))
    typer.echo(f"Following {folder} for run {name} at {url}. Ctrl-C ends it; it goes on where it was.")
    with stopped_by_signals() as stop:
        for line in watching.follow(watched, Remote(url, token), memory, settings, stop):
            typer.echo(line)


@app.command()
def export(
    what: Annotated[str, typer.Argument(help="Id of a batch, or id or name of a run.")],
    format: Annotated[Format, typer.Option(help="Kind of file.")] = Format.parquet,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File; default: named after it.")
    ] = None,
    estimate: Annotated[
        str | None, typer.Option(help="A convention (grpo/verl), or an estimate's id: its columns go along.")
    ] = None,
    url: Annotated[str, typer.Option(help="The server.")] = DEFAULT_URL,
    token: Annotated[
        str | None, typer.Option(envvar="VANTAGE_TOKEN", help="Its token, if it wants one.")
    ] = None,
) -> None:
    """Write a batch or a whole run into one file, with computed advantages beside what was recorded."""
    configure("export", "WARNING")
    address(url)
    path = output or Path(f"{what.replace('/', '_')}.{format.value}")
    for line in take_out(Remote(url, token), what, format.value, path, estimate):
        typer.echo(line)


@contextmanager
def stopped_by_signals() -> Iterator[Event]:
    """Set at the first SIGINT or SIGTERM: what is being done is finished."""
    stop = Event()
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(number, lambda *_: stop.set()) for number in numbers]
    try:
        yield stop
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


@app.command()
def demo(
    data_dir: DataDir = None,
    host: Host = None,
    port: Port = None,
    insecure: Insecure = None,
    device: Device = None,
) -> None:
    """Load the example runs and serve them."""
    settings = settings_from(data_dir=data_dir, host=host, port=port, insecure=insecure, device=device)
    settings = quiet(settings)
    configure("web", settings.log_level)
    serving.demo(settings)


@app.command()
def migrate(data_dir: DataDir = None, database_url: DatabaseUrl = None) -> None:
    """Bring the database schema up to date."""
    configure("migrate")
    prepare(settings_from(data_dir=data_dir, database_url=database_url))
    typer.echo("The database schema is up to date.")


@app.command()
def check(data_dir: DataDir = None, database_url: DatabaseUrl = None) -> None:
    """Verify everything stored against its checksums; code 1 where something is damaged. Changes nothing."""
    configure("check", "WARNING")
    damaged = 0
    with read(existing_database(settings_from(data_dir=data_dir, database_url=database_url))) as session:
        for message in verify(session):
            damaged += 1
            typer.echo(message)
    typer.echo("Everything stored is as it was written." if not damaged else f"{damaged} damaged parts.")
    raise typer.Exit(1 if damaged else 0)


def existing_database(settings: Settings) -> Engine:
    """The database as it is there, not written to. Raises AppError where there is none, or not in this
    version's schema."""
    path = settings.data_dir / "vantage.db"
    if settings.database_url is None and not path.is_file():
        raise AppError(f"There is no database in {settings.data_dir}. Name its folder with --data-dir.")
    engine = make_engine(settings.url, read_only=True)
    refuse_newer(engine)
    if not schema_is_current(engine, settings.url):
        raise AppError("The database schema is of an older version. Run `vantage migrate` first.")
    return engine


def main() -> None:
    """Run the command; an error that a person can act on is one sentence, not a traceback."""
    try:
        app()
    except AppError as error:
        typer.echo(error.detail, err=True)
        sys.exit(2)
    except Exception as error:
        told = sentence(error)
        if told is None:
            raise
        typer.echo(told, err=True)
        sys.exit(2)


if __name__ == "__main__":
    main()
