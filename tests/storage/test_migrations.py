"""The migrations make what the models say, beside whatever else lives in the database."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Connection, Engine, create_engine, inspect, text

from storage.database import (
    alembic_config,
    make_engine,
    migrate,
    psycopg_url,
    read,
    schema_is_current,
    write,
)
from storage.models import Base, TokenArray
from tests.builders import make_batch

ROOT = Path(__file__).parents[2]


def names_in(connection: Connection) -> dict[str, set[str | None]]:
    """Names of keys, constraints and indexes per table."""
    inspector = inspect(connection)
    found: dict[str, set[str | None]] = {}
    for table in Base.metadata.tables:
        found[table] = {inspector.get_pk_constraint(table)["name"]}
        found[table] |= {key["name"] for key in inspector.get_foreign_keys(table)}
        found[table] |= {key["name"] for key in inspector.get_unique_constraints(table)}
        found[table] |= {
            index["name"] for index in inspector.get_indexes(table) if not index.get("duplicates_constraint")
        }
    return found


def test_migrations_equal_the_models(engine: Engine) -> None:
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, Base.metadata) == []


def test_every_constraint_has_the_models_name(engine: Engine, tmp_path: Path) -> None:
    by_models = create_engine(f"sqlite:///{tmp_path / 'models.db'}")
    Base.metadata.create_all(by_models)
    with by_models.connect() as expected, engine.connect() as connection:
        found = names_in(connection)
        assert found == names_in(expected)
    by_models.dispose()
    assert all(name for names in found.values() for name in names)


def test_deleting_cascades_as_the_models_say(engine: Engine) -> None:
    def rules(table: str) -> dict[str | None, str | None]:
        return {
            key["name"]: key["options"].get("ondelete") for key in inspect(engine).get_foreign_keys(table)
        }

    for table in Base.metadata.tables.values():
        assert rules(table.name) == {str(key.name): key.ondelete for key in table.foreign_key_constraints}


def test_migrating_again_changes_nothing(engine: Engine, database_url: str) -> None:
    batch = make_batch(engine)
    migrate(database_url)
    assert schema_is_current(engine, database_url)
    with read(engine) as session:
        assert session.get(type(batch), batch.id) is not None


def test_an_empty_database_is_not_current(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'new.db'}"
    engine = make_engine(url)
    assert not schema_is_current(engine, url)
    migrate(url)
    assert schema_is_current(engine, url)
    engine.dispose()


def test_other_tables_in_the_same_database_are_left_alone(engine: Engine, database_url: str) -> None:
    """The job engine keeps tables with plain names beside ours."""
    with write(engine) as session:
        session.execute(text("CREATE TABLE workflow_status (id TEXT, run_id TEXT)"))
        session.execute(text("CREATE INDEX ix_workflow_status ON workflow_status (run_id)"))
    command.check(alembic_config(database_url))  # raises where autogenerate would change anything
    migrate(database_url)
    assert inspect(engine).has_table("workflow_status")


def test_the_way_down_and_up_again(engine: Engine, database_url: str) -> None:
    command.downgrade(alembic_config(database_url), "base")
    assert not schema_is_current(engine, database_url)
    assert set(inspect(engine).get_table_names()) == {"alembic_version"}
    migrate(database_url)
    assert set(Base.metadata.tables) < set(inspect(engine).get_table_names())


def test_several_servers_may_migrate_at_once(engine: Engine, database_url: str) -> None:
    command.downgrade(alembic_config(database_url), "base")
    program = "import sys; from storage.database import migrate; migrate(sys.argv[1])"
    servers = [
        subprocess.Popen([sys.executable, "-c", program, database_url], cwd=ROOT, stderr=subprocess.PIPE)
        for _ in range(2)
    ]
    said = [server.communicate()[1].decode() for server in servers]
    assert [server.returncode for server in servers] == [0, 0], said
    assert schema_is_current(engine, database_url)


def test_rebuilding_a_table_on_sqlite_deletes_nothing_that_refers_to_it(
    sqlite_engine: Engine, sqlite_url: str, tmp_path: Path
) -> None:
    """With foreign keys on, dropping the old table would take its rollouts along."""
    batch = make_batch(sqlite_engine, [[1, 0]], arrays={"values": [[1.0], [2.0]]})
    folder = tmp_path / "versions"
    folder.mkdir()
    (folder / "0004_wider.py").write_text(
        "import sqlalchemy as sa\n"
        "from alembic import op\n"
        "revision, down_revision = 'test', '0003'\n"
        "def upgrade():\n"
        "    with op.batch_alter_table('batch', recreate='always') as table:\n"
        "        table.add_column(sa.Column('more', sa.Text()))\n"
    )
    config = alembic_config(sqlite_url)
    versions = Path(str(config.get_main_option("script_location"))) / "versions"
    config.set_main_option("version_locations", f"{versions}\n{folder}")
    config.set_main_option("path_separator", "newline")
    command.upgrade(config, "test")
    with read(sqlite_engine) as session:
        assert "more" in {column["name"] for column in inspect(sqlite_engine).get_columns("batch")}
        assert session.query(TokenArray).filter_by(batch_id=batch.id).count() == 1
        assert "fk_batch_run_id_run" in {
            key["name"] for key in inspect(sqlite_engine).get_foreign_keys("batch")
        }


def test_blobs_are_not_compressed_twice_on_postgresql(engine: Engine) -> None:
    if engine.dialect.name != "postgresql":
        return
    query = (
        "SELECT attstorage FROM pg_attribute WHERE attrelid = 'token_array'::regclass AND attname = 'data'"
    )
    with engine.connect() as connection:
        storage: Any = connection.execute(text(query)).scalar_one()
    assert storage in ("e", b"e")


@pytest.mark.parametrize("url", ["postgres://u@h/d", "postgresql://u@h/d", "postgresql+psycopg://u@h/d"])
def test_every_usual_spelling_of_a_postgresql_url(url: str) -> None:
    assert psycopg_url(url) == "postgresql+psycopg://u@h/d"
