"""`?wait=`: the answer comes when the job has ended, or when the time is up. A waiting request holds no
thread: it looks now and then, and at once when the bell rings for its job."""

import asyncio
import time
from contextlib import suppress
from threading import Event
from typing import Annotated

from fastapi import Query
from fastapi.concurrency import run_in_threadpool
from sqlalchemy import Engine

from app.jobs import FINAL, Kind, ended_text, find
from app.waiters import Waiters
from storage.database import read

LONGEST = 60
FIRST_PAUSE, LONGEST_PAUSE = 0.02, 0.25
#: Without a ring, an answer comes later than its job's end by at most this share of the time waited.
PAUSE_SHARE = 0.1

Wait = Annotated[
    float,
    Query(
        ge=0,
        le=LONGEST,
        allow_inf_nan=False,
        description="Seconds to wait for the job's end; after that, the answer is 202 with its Location.",
    ),
]


async def ended(
    engine: Engine, kind: Kind, job_id: str, seconds: float, closing: Event, waiters: Waiters
) -> str:
    """The job's state when it has ended, `seconds` have passed, or the server goes down."""
    begun = time.monotonic()
    deadline = begun + seconds
    with waiters.expecting(ended_text(kind, job_id)) as rung:
        while True:
            rung.clear()
            state = await run_in_threadpool(state_of, engine, kind, job_id)
            now = time.monotonic()
            left, pause = deadline - now, min(max(FIRST_PAUSE, (now - begun) * PAUSE_SHARE), LONGEST_PAUSE)
            if state in FINAL or left <= 0 or closing.is_set():
                return state
            with suppress(TimeoutError):
                await asyncio.wait_for(rung.wait(), min(pause, left))


def state_of(engine: Engine, kind: Kind, job_id: str) -> str:
    with read(engine) as session:
        return find(session, kind, job_id).state
