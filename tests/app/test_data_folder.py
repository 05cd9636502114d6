"""The data folder: closed to others, and refused with a sentence where it cannot be used."""

import os
import sqlite3
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import text

from app.data_folder import close_to_others
from app.errors import AppError
from app.jobs import prepare
from app.settings import Settings
from app.startup_errors import DAMAGED, FOREIGN, sentence
from storage.database import NewerSchema, make_engine, read, write
from storage.database_file import DatabaseGone
from tests.app.test_cli import own_logging, vantage  # noqa: F401 # a fixture for this module


@pytest.fixture(autouse=True)
def own_umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_nobody_else_can_read_the_data_folder(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path / "data")
    prepare(settings)
    (settings.spool_dir / "received").write_text("rollouts")
    assert mode(settings.data_dir) == 0o700
    for path in settings.data_dir.rglob("*"):
        assert mode(path) == (0o700 if path.is_dir() else 0o600), path.name


def test_a_folder_left_open_by_an_earlier_version_is_closed(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path / "data")
    prepare(settings)
    for path in (settings.data_dir, settings.data_dir / "vantage.db", settings.spool_dir):
        path.chmod(0o755)
    prepare(settings)
    assert {mode(p) & 0o077 for p in (settings.data_dir, settings.data_dir / "vantage.db")} == {0}


def test_a_folder_that_is_not_ours_keeps_its_permissions(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path / "shared")
    settings.data_dir.mkdir(mode=0o755)
    (settings.data_dir / "other.txt").write_text("somebody's")
    (settings.data_dir / "other.txt").chmod(0o644)
    close_to_others(settings.data_dir)
    assert mode(settings.data_dir) == 0o755
    assert mode(settings.data_dir / "other.txt") == 0o644


def test_a_file_in_place_of_the_folder_is_said(tmp_path: Path) -> None:
    path = tmp_path / "data"
    path.write_text("")
    with pytest.raises(AppError, match="is a file"):
        prepare(Settings(data_dir=path))


@pytest.mark.parametrize(
    ("content", "said"),
    [(b"this is no database at all, it only has its name" * 40, FOREIGN), (None, DAMAGED)],
)
def test_a_foreign_or_damaged_database_is_one_sentence(
    content: bytes | None,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    settings = Settings(data_dir=tmp_path / "data")
    prepare(settings)
    path = settings.data_dir / "vantage.db"
    whole = path.read_bytes()
    for beside in settings.data_dir.glob("vantage.db-*"):
        beside.unlink()
    path.write_bytes(content or whole[:4096] + b"\xff" * (len(whole) - 4096))
    for command in (["migrate"], ["check"], ["web", "--port", "0"]):
        assert vantage(monkeypatch, *command, "--data-dir", str(settings.data_dir)) == 2
        assert said in capsys.readouterr().err


def test_a_newer_schema_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = Settings(data_dir=tmp_path / "data")
    prepare(settings)
    with write(make_engine(settings.url)) as session:
        session.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(NewerSchema, match="9999"):
        prepare(settings)
    for command in ("check", "serve"):
        assert vantage(monkeypatch, command, "--data-dir", str(settings.data_dir)) == 2
        assert "newer version of Vantage" in capsys.readouterr().err


def test_check_makes_no_database(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for folder in (tmp_path, tmp_path / "nowhere"):
        assert vantage(monkeypatch, "check", "--data-dir", str(folder)) == 2
        assert "There is no database" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_port_that_is_none_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert vantage(monkeypatch, "web", "--port", "99999", "--data-dir", str(tmp_path / "d")) == 2
    assert "0 to 65535" in capsys.readouterr().err


@pytest.mark.parametrize("how", ["deleted", "replaced"])
def test_nothing_is_written_into_a_database_file_that_is_gone(how: str, tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path / "data")
    prepare(settings)
    engine = make_engine(settings.url)
    path = settings.data_dir / "vantage.db"
    with read(engine) as session:
        session.execute(text("SELECT count(*) FROM run"))
    if how == "deleted":
        path.unlink()
    else:
        path.rename(tmp_path / "away")
        sqlite3.connect(path).close()
    with pytest.raises(DatabaseGone), write(engine) as session:
        session.execute(text("DELETE FROM run"))
    with pytest.raises(DatabaseGone), read(engine) as session:
        session.execute(text("SELECT count(*) FROM run"))
    assert how == "replaced" or not path.exists(), "no empty file is made in its place"


def test_a_full_disk_is_said() -> None:
    assert "no space left" in str(sentence(OSError(28, "No space left on device")))
    assert sentence(KeyError("unforeseen")) is None
