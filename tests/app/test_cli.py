"""The command line: what it refuses, and how it says so."""

import logging
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

from app import cli
from app.errors import AppError, Conflict
from app.serving import bind, check_address, data_folder_lock
from app.settings import Settings, is_loopback
from app.supervisor import environment
from storage.database import write
from storage.models import TokenArray
from tests.app.dumps import dump
from tests.working import Place


@pytest.fixture(autouse=True)
def own_logging() -> Iterator[None]:
    """The commands set up logging for their process; here it is put back."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers, root.level = handlers, level
    structlog.reset_defaults()


def vantage(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int | str | None:
    """Run the command in this process: its exit code."""
    monkeypatch.setattr(sys, "argv", ["vantage", *arguments])
    with pytest.raises(SystemExit) as left:
        cli.main()
    return left.value.code


@pytest.mark.parametrize("kind", ["serve", "web"])
def test_an_address_that_others_reach_has_to_be_asked_for(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "data"
    assert vantage(monkeypatch, kind, "--host", "0.0.0.0", "--port", "0", "--data-dir", str(folder)) == 2
    said = capsys.readouterr().err
    assert "no accounts" in said
    assert "--insecure" in said
    assert "Traceback" not in said
    assert not folder.exists(), "nothing was begun"


def test_insecure_allows_any_address() -> None:
    check_address(Settings(host="0.0.0.0", insecure=True))
    with pytest.raises(AppError):
        check_address(Settings(host="0.0.0.0"))


@pytest.mark.parametrize(
    ("host", "loopback"),
    [("127.0.0.1", True), ("127.8.8.8", True), ("::1", True), ("localhost", True), ("::", False), ("", False),
     ("10.0.0.1", False), ("example.org", False), ("127.0.0.1.example.org", False)],
)  # fmt: skip
def test_only_loopback_is_loopback(host: str, loopback: bool) -> None:
    assert is_loopback(host) is loopback


def test_a_folder_in_use_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with data_folder_lock(Settings(data_dir=tmp_path)):
        assert vantage(monkeypatch, "serve", "--port", "0", "--data-dir", str(tmp_path)) == 2
    said = capsys.readouterr().err
    assert "Another `vantage serve` uses this data folder." in said
    assert str(tmp_path) not in said
    with data_folder_lock(Settings(data_dir=tmp_path)):
        pass


def test_a_port_in_use_is_refused() -> None:
    with bind(Settings(port=0)) as listener:
        listener.listen()
        port = listener.getsockname()[1]
        with pytest.raises(Conflict, match="--port 0"):
            bind(Settings(port=port))


def test_unknown_queues_and_devices_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert vantage(monkeypatch, "worker", "--queues", "ingest,train", "--data-dir", str(tmp_path)) == 2
    assert "ingest and estimate" in capsys.readouterr().err


def test_check_finds_a_damaged_array(
    place: Place, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    batch = place.ingest(dump())["batches"][0]["id"]
    folder = str(place.settings.data_dir)
    assert vantage(monkeypatch, "check", "--data-dir", folder) == 0
    assert "as it was written" in capsys.readouterr().out
    with write(place.engine) as session:
        row = session.get_one(TokenArray, (batch, "values", 2, 0))
        row.data = row.data[:-1] + bytes([row.data[-1] ^ 1])
    assert vantage(monkeypatch, "check", "--data-dir", folder) == 1
    said = capsys.readouterr().out
    assert batch in said
    assert "values" in said
    assert "1 damaged" in said


def test_migrate_makes_a_database(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for _ in range(2):
        assert vantage(monkeypatch, "migrate", "--data-dir", str(tmp_path / "data")) == 0
    assert (tmp_path / "data" / "vantage.db").is_file()
    assert "up to date" in capsys.readouterr().out


def test_the_worker_gets_the_settings_of_its_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VANTAGE_CHUNK_BYTES", "7")
    settings = Settings(data_dir=tmp_path, device="cpu", allowed_hosts=("a", "b"), dead_after_seconds=2.5)
    for name, value in environment(settings).items():
        monkeypatch.setenv(name, value)
    assert Settings() == settings
    assert settings.chunk_bytes == 7
