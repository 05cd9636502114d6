"""Transfers: what is kept of an upload that comes in pieces."""

import time

from sqlalchemy import Engine

from storage import transfers
from storage.database import read, write
from storage.models import Transfer

FILES = [
    {"filename": "a \x00\ud800.jsonl", "bytes": 2**40, "encoding": None},
    {"filename": "b.gz", "bytes": 1, "encoding": "gzip"},
]


def begin(engine: Engine) -> Transfer:
    with write(engine) as session:
        return transfers.create(session, key_hash="0" * 64, files=FILES, request={"run": "r"})


def test_a_transfer_comes_back_as_it_was_begun(engine: Engine) -> None:
    made = begin(engine)
    with read(engine) as session:
        found = transfers.get(session, made.id)
        assert found is not None
        assert (found.files, found.bytes, found.request) == (FILES, 2**40 + 1, {"run": "r"})
        assert found.upload_id is None
        assert transfers.get(session, "another") is None


def test_only_what_is_whole_is_forgotten_and_only_when_it_is_old(engine: Engine) -> None:
    going_on, whole = begin(engine), begin(engine)
    with write(engine) as session:
        found = transfers.get(session, whole.id)
        assert found is not None
        found.upload_id = "upload"
    with write(engine) as session:
        assert [transfer.id for transfer in transfers.unfinished(session)] == [going_on.id]
        transfers.forget(session, whole.created)
        assert transfers.get(session, whole.id) is not None
        transfers.forget(session, time.time() + 1)
        assert transfers.get(session, whole.id) is None
        assert transfers.get(session, going_on.id) is not None
        transfers.delete(session, going_on.id)
        assert transfers.unfinished(session) == []
