"""What a file is that no format reads, in one sentence with a remedy. Nothing is unpickled or imported."""

from app.ingest.record import Problem, Source
from app.settings import Settings


def explain(source: Source, settings: Settings) -> Problem:
    if not source.head:
        return Problem(f"{source.name}: the file is empty (0 bytes).", "empty", "error")
    return Problem(f"{source.name}: not recognised.", "unknown_format", "error")
