"""How often links were opened: counted in memory, written now and then.

Opening a link then waits for no writer, and works while the database is busy or read-only. What a killed
process had not written yet is lost: a count of visits, nothing else.
"""

import asyncio
import threading
import time

from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from app.logs import get_logger
from storage import dashboards
from storage.database import write

log = get_logger("vantage.visits")

WRITE_SECONDS = 5.0


class Visits:
    """Visits that are not written yet. Safe for threads."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.waiting: dict[str, tuple[int, float]] = {}

    def count(self, share_id: str) -> None:
        with self.lock:
            self.waiting[share_id] = (self.of(share_id)[0] + 1, time.time())

    def of(self, share_id: str) -> tuple[int, float]:
        """Visits of a link that are not written yet, and when the last one was (0: none)."""
        return self.waiting.get(share_id, (0, 0.0))

    def write(self, engine: Engine) -> None:
        """Write what waits, in one transaction. It waits on where that fails."""
        with self.lock:
            taken, self.waiting = self.waiting, {}
        if not taken:
            return
        try:
            with write(engine) as session:
                dashboards.add_visits(session, taken)
        except SQLAlchemyError as error:
            log.warning("visits not written yet", error=type(error).__name__)
            with self.lock:
                for share_id, (number, last) in taken.items():
                    more, later = self.of(share_id)
                    self.waiting[share_id] = (number + more, max(last, later))

    async def keep_writing(self, engine: Engine) -> None:
        while True:
            await asyncio.sleep(WRITE_SECONDS)
            if self.waiting:
                await asyncio.to_thread(self.write, engine)
