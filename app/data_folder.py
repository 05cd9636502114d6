"""The data folder: made for its owner alone, and refused with a sentence where it cannot be used."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from app.errors import AppError
from app.logs import get_logger
from app.settings import Settings

log = get_logger("vantage.data")

PRIVATE_FOLDER = 0o700
#: What shows that a folder is one of ours: only such a folder's permissions are changed.
MARKS = ("vantage.db", "serve.lock", "migrate.lock", "spool")
OTHERS = stat.S_IRWXG | stat.S_IRWXO


def prepare_folder(settings: Settings) -> None:
    """Make the data folder (0700) and see to it that this process's files there are 0600.

    A folder of ours that an earlier version left open to others is closed. Raises AppError where the path is
    a file or cannot be written.
    """
    os.umask(0o077)
    folder = settings.data_dir
    if folder.exists() and not folder.is_dir():
        raise AppError(f"{folder} is a file. --data-dir (VANTAGE_DATA_DIR) has to name a folder.")
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=PRIVATE_FOLDER)
        settings.spool_dir.mkdir(exist_ok=True, mode=PRIVATE_FOLDER)
    except OSError as error:
        raise unusable(folder, error) from error
    if not os.access(folder, os.W_OK | os.X_OK):
        raise unusable(folder, PermissionError())
    close_to_others(folder)


def unusable(folder: Path, error: OSError) -> AppError:
    reason = os.strerror(error.errno) if error.errno else "it is not writable"
    return AppError(
        f"The data folder {folder} cannot be used ({reason}). Make room or change its permissions, or name "
        "another with --data-dir (VANTAGE_DATA_DIR)."
    )


def close_to_others(folder: Path) -> None:
    """Take the permissions of group and others away from the folder and the files in it, if it is ours."""
    if not any((folder / mark).exists() for mark in MARKS):
        return
    closed = sum(restrict(path) for path in (folder, *own_files(folder)))
    if closed:
        log.warning("permissions of the data folder were open to others and are closed now", paths=closed)


def own_files(folder: Path) -> Iterator[Path]:
    """The database, locks and received files; links are left alone."""
    for path in (*folder.iterdir(), *(folder / "spool").rglob("*")):
        if not path.is_symlink():
            yield path


def restrict(path: Path) -> bool:
    """Whether the path was open to others, and no longer is."""
    try:
        mode = path.stat().st_mode
        if not mode & OTHERS:
            return False
        path.chmod(stat.S_IMODE(mode) & ~OTHERS)
    except FileNotFoundError:  # another process took it away
        return False
    except PermissionError:
        log.warning("permissions of the data folder cannot be changed: another user owns it")
        return False
    return True
