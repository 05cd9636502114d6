"""The checks of a batch that could not be done."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "unchecked",
        sa.Column("batch_id", sa.String(32), nullable=False),
        sa.Column("check", sa.String(64), nullable=False),
        sa.Column("title", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("batch_id", "check", name=op.f("pk_unchecked")),
        sa.ForeignKeyConstraint(
            ["batch_id"], ["batch.id"], name=op.f("fk_unchecked_batch_id_batch"), ondelete="CASCADE"
        ),
    )


def downgrade() -> None:
    op.drop_table("unchecked")
