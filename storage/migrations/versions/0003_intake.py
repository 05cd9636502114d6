"""Tokenizers that decode token ids, and which column of a table is what."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.types import TypeEngine

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

TEXT, INT, BYTES = sa.Text(), sa.BigInteger(), sa.LargeBinary()
FLOAT = sa.Float(precision=53)


# fmt: off


def column(name: str, kind: TypeEngine[object], null: bool = False) -> sa.Column[object]:
    return sa.Column(name, kind, nullable=null)


def upgrade() -> None:
    op.create_table(
        "tokenizer",
        column("name", sa.String(64)), column("sha256", sa.String(64)), column("size", INT),
        column("model", sa.String(32)), column("decoder", sa.String(64)), column("vocabulary", INT),
        column("special", INT), column("created", FLOAT), column("data", BYTES),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_tokenizer")),
    )
    op.create_table(
        "column_mapping",
        column("shape", sa.String(64)), column("seen", TEXT), column("mapping", TEXT),
        column("decimal", sa.String(8), null=True), column("group_by", TEXT, null=True),
        column("created", FLOAT), column("updated", FLOAT),
        sa.PrimaryKeyConstraint("shape", name=op.f("pk_column_mapping")),
    )
    op.add_column("run", column("tokenizer", sa.String(64), null=True))


def downgrade() -> None:
    op.drop_column("run", "tokenizer")
    op.drop_table("column_mapping")
    op.drop_table("tokenizer")
