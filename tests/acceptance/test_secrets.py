"""Statements fail on purpose while secrets are at work: no line of any process holds a word of them."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine, text

from tests import databases
from tests.acceptance.dumps import dump
from tests.acceptance.processes import QUICK, Server, database, serving, wait_for

pytestmark = pytest.mark.acceptance

SECRET = "hushhush"

#: Every insert of a rollout fails, and so does saying that the upload failed. PostgreSQL's own message quotes
#: the row then, which the driver passes on whatever SQLAlchemy leaves out.
SABOTAGE = {
    "sqlite": [
        "ALTER TABLE rollout RENAME COLUMN response TO answer",
        "CREATE TRIGGER no_end BEFORE UPDATE OF state ON upload WHEN NEW.state = 'failed' "
        "BEGIN SELECT RAISE(ABORT, 'not now'); END",
        "ALTER TABLE dashboard RENAME COLUMN title TO name",
    ],
    "postgresql": [
        "CREATE FUNCTION blurt() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN RAISE EXCEPTION 'not %', NEW; END $$",
        "CREATE TRIGGER no_rollout BEFORE INSERT ON rollout FOR EACH ROW EXECUTE FUNCTION blurt()",
        "CREATE TRIGGER no_end BEFORE UPDATE OF state ON upload FOR EACH ROW "
        "WHEN (NEW.state = 'failed') EXECUTE FUNCTION blurt()",
        "CREATE TRIGGER no_dashboard BEFORE INSERT ON dashboard FOR EACH ROW EXECUTE FUNCTION blurt()",
    ],
}


@pytest.fixture(params=databases.KINDS)
def settings(request: pytest.FixtureRequest) -> Iterator[dict[str, str]]:
    if request.param == "sqlite":
        yield dict(QUICK)
    else:
        with databases.postgres_copy(request.getfixturevalue("postgres_url")) as url:
            yield {**QUICK, "VANTAGE_DATABASE_URL": url}


def test_no_log_line_holds_a_text_a_token_or_a_key(tmp_path: Path, settings: dict[str, str]) -> None:
    data_dir = tmp_path / "data"
    data_dir.mkdir()
    with serving(data_dir, settings) as server:
        engine = database(data_dir, settings)
        try:
            sabotage(engine)
            with server.client as client:
                key = {"Idempotency-Key": f"key-{SECRET}"}
                sent = client.post("/api/v1/uploads", content=dump(16, run=SECRET), headers=key)
                assert sent.status_code in (201, 202), sent.text
                named = {"Idempotency-Key": f"other-{SECRET}"}
                made = client.post("/api/v1/dashboards", json={"title": SECRET}, headers=named)
                assert made.status_code >= 500, made.text
                assert SECRET not in made.text
                wait_for(lambda: failing(server), "the job's failure is in the log")
        finally:
            engine.dispose()
        server.popen.terminate()
        said, _ = server.popen.communicate(timeout=60)
        assert SECRET not in said
        assert SECRET not in server.log.read_text()


def sabotage(engine: Engine) -> None:
    with engine.begin() as connection:
        for statement in SABOTAGE[engine.dialect.name]:
            connection.execute(text(statement))


def failing(server: Server) -> bool:
    """Whether the worker has said that the ingest came to grief."""
    return any(
        '"process": "worker"' in line and ("Error" in line or "Exception" in line)
        for line in server.log.read_text().splitlines()
    )
