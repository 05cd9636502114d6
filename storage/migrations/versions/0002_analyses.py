"""Analyses: answers about a batch that are not estimates."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.types import TypeEngine

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

TEXT, INT, BOOL = sa.Text(), sa.BigInteger(), sa.Boolean()
FLOAT = sa.Float(precision=53)


# fmt: off


def column(name: str, kind: TypeEngine[object], null: bool = False) -> sa.Column[object]:
    return sa.Column(name, kind, nullable=null)


def upgrade() -> None:
    op.create_table(
        "analysis",
        column("id", sa.String(32)), column("batch_id", sa.String(32)), column("kind", sa.String(16)),
        column("request", TEXT), column("request_hash", sa.String(64)), column("default", BOOL),
        column("device", sa.String(64), null=True), column("timing", TEXT, null=True),
        column("result", TEXT, null=True), column("state", sa.String(16)), column("stage", sa.String(32)),
        column("done", INT), column("total", INT), column("attempts", INT), column("revision", INT),
        column("cancel_requested", BOOL), column("error", TEXT, null=True),
        column("executor", sa.String(255), null=True), column("created", FLOAT),
        column("started", FLOAT, null=True), column("finished", FLOAT, null=True),
        sa.ForeignKeyConstraint(["batch_id"], ["batch.id"],
            name=op.f("fk_analysis_batch_id_batch"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_analysis")),
        sa.UniqueConstraint("batch_id", "kind", "request_hash", name=op.f("uq_analysis_batch_id")),
    )
    op.create_index("ix_analysis_created", "analysis", ["created"])
    op.create_index("ix_analysis_state", "analysis", ["state"])


def downgrade() -> None:
    op.drop_table("analysis")
