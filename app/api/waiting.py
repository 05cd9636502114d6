"""`?wait=`: the answer comes when the job has ended, or when the time is up. A waiting request holds no
thread."""

import asyncio
import time
from threading import Event
from typing import Annotated

from fastapi import Query
from fastapi.concurrency import run_in_threadpool
from sqlalchemy import Engine

from app.jobs import FINAL, Kind, find
from storage.database import read

LONGEST = 60
FIRST_PAUSE, LONGEST_PAUSE = 0.02, 0.25

Wait = Annotated[
    float,
    Query(
        ge=0,
        le=LONGEST,
        allow_inf_nan=False,
        description="Seconds to wait for the job's end; after that, the answer is 202 with its Location.",
    ),
]


async def ended(engine: Engine, kind: Kind, job_id: str, seconds: float, closing: Event) -> str:
    """The job's state when it has ended, `seconds` have passed, or the server goes down."""
    deadline = time.monotonic() + seconds
    pause = FIRST_PAUSE
    while True:
        state = await run_in_threadpool(state_of, engine, kind, job_id)
        left = deadline - time.monotonic()
        if state in FINAL or left <= 0 or closing.is_set():
            return state
        await asyncio.sleep(min(pause, left))
        pause = min(pause * 1.5, LONGEST_PAUSE)


def state_of(engine: Engine, kind: Kind, job_id: str) -> str:
    with read(engine) as session:
        return find(session, kind, job_id).state
