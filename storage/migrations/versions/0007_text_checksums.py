"""A checksum of the texts of each rollout and prompt group."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

TABLES = ("rollout", "prompt")


def upgrade() -> None:
    for table in TABLES:
        op.add_column(table, sa.Column("text_checksum", sa.BigInteger(), nullable=True))


def downgrade() -> None:
    for table in TABLES:
        with op.batch_alter_table(table) as batch:
            batch.drop_column("text_checksum")
