"""The columns of a batch, and of an estimate, in one blob each."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    for table, owner in (("packed_batch", "batch"), ("packed_estimate", "estimate")):
        key = f"{owner}_id"
        op.create_table(
            table,
            sa.Column(key, sa.String(32), nullable=False),
            sa.Column("data", sa.LargeBinary(), nullable=False),
            sa.PrimaryKeyConstraint(key, name=op.f(f"pk_{table}")),
            sa.ForeignKeyConstraint(
                [key], [f"{owner}.id"], name=op.f(f"fk_{table}_{key}_{owner}"), ondelete="CASCADE"
            ),
        )


def downgrade() -> None:
    op.drop_table("packed_estimate")
    op.drop_table("packed_batch")
