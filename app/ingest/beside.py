"""Files of an upload that are parts of another file of it: kept on disk until that one is read."""

import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from app.ingest.record import Problem, Source
from app.settings import Settings

MEMO = "beside"
BUFFER = 1 << 20
NAMED = 5


@dataclass(slots=True)
class _Part:
    path: Path
    used: bool = False


class Beside:
    """`keep` a part, `find` it by its name with folders. `close` deletes what was copied."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._parts: dict[str, _Part] = {}
        self._folder: Path | None = None

    def keep(self, source: Source) -> None:
        """A file of an archive or a wrapping is copied; one that was handed over as it is stays in place."""
        if source.path is not None and not source.copied:
            self._parts[source.trail] = _Part(source.path)
            return
        if self._folder is None:
            spool = self._settings.spool_dir
            self._folder = Path(tempfile.mkdtemp(prefix="parts-", dir=spool if spool.is_dir() else None))
        path = self._folder / str(len(self._parts))
        with source.open() as stream, path.open("wb") as out:
            shutil.copyfileobj(stream, out, BUFFER)
        self._parts[source.trail] = _Part(path)

    def find(self, trail: str) -> Path | None:
        part = self._parts.get(trail)
        if part is None:
            return None
        part.used = True
        return part.path

    def close(self) -> None:
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def summary(self) -> Iterator[Problem]:
        """Parts whose whole is not in the upload."""
        unused = [name for name, part in self._parts.items() if not part.used]
        if unused:
            more = f" and {len(unused) - NAMED} more" if len(unused) > NAMED else ""
            message = (
                f"{', '.join(unused[:NAMED])}{more}: parts of a folder whose meta.json does not name them "
                "or is not in the upload; left out. Upload the whole folder"
            )
            alone = len(unused) == len(self._parts)
            yield Problem(message, "missing_files", "error" if alone else "warning")


def of(source: Source) -> Beside | None:
    """What lies beside this source; None where it is read by itself."""
    found = source.memo.get(MEMO)
    return found if isinstance(found, Beside) else None
