"""Who starts first makes the schema; who starts at the same time waits, says so, and is ready after it."""

import threading
from pathlib import Path

from structlog.testing import capture_logs

from app.jobs import connect, prepare
from app.settings import Settings

TOGETHER = 4
SECONDS = 90


def test_any_number_may_start_together_on_an_empty_database(empty_url: str, tmp_path: Path) -> None:
    """Each has sessions of its own, as each process has: the database cannot tell them from processes."""
    settings = Settings(data_dir=tmp_path / "data", database_url=empty_url)
    ready, together = [], threading.Barrier(TOGETHER)

    def start(number: int) -> None:
        together.wait()
        prepare(settings)
        ready.append(number)

    threads = [threading.Thread(target=start, args=(number,), daemon=True) for number in range(TOGETHER)]
    with capture_logs() as said:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(SECONDS)
    assert sorted(ready) == list(range(TOGETHER))
    assert any(line["event"].startswith("waiting for another process") for line in said)
    connect(settings).close()
