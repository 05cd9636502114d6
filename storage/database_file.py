"""The file of a SQLite database while processes have it open: whether it is still the one at its path."""

import os
from typing import Any

from sqlalchemy.exc import OperationalError


class DatabaseGone(OperationalError):
    """The file of the database was deleted or replaced while this process had it open: what is written now
    would be lost when the process ends."""

    def __init__(self) -> None:
        text = (
            "The database file was deleted or replaced while the server was running, so nothing can be kept. "
            "Put it back from a backup and restart the server."
        )
        super().__init__("", {}, Exception(text))
        self.text = text

    def __str__(self) -> str:
        return self.text


class FileWatch:
    """Refuses connections and transactions once the file that was opened is not at its path any more."""

    def __init__(self, path: str | None) -> None:
        self.path = path or ""
        self.opened: tuple[int, int] | None = None

    def _now(self) -> tuple[int, int] | None:
        try:
            found = os.stat(self.path)
        except OSError:
            return None
        return found.st_dev, found.st_ino

    def before_connect(self, *_: Any) -> None:
        # Connecting would make an empty file in its place.
        self.begun()

    def connected(self, *_: Any) -> None:
        if self.opened is None:
            self.opened = self._now()

    def begun(self, *_: Any) -> None:
        if self.opened is not None and self._now() != self.opened:
            raise DatabaseGone
