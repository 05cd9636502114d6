"""The first tables. Names of constraints are written out: later migrations refer to them."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.types import TypeEngine

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

TEXT, INT, BOOL, BYTES = sa.Text(), sa.BigInteger(), sa.Boolean(), sa.LargeBinary()
FLOAT = sa.Float(precision=53)


# fmt: off


def column(name: str, kind: TypeEngine[object], null: bool = False) -> sa.Column[object]:
    return sa.Column(name, kind, nullable=null)


def dashboard() -> None:
    op.create_table(
        "dashboard",
        column("id", sa.String(32)), column("title", TEXT), column("note", TEXT), column("created", FLOAT),
        column("updated", FLOAT),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_dashboard")),
    )


def idempotency_key() -> None:
    op.create_table(
        "idempotency_key",
        column("key", sa.String(255)), column("path", TEXT), column("digest", sa.String(64)),
        column("status", INT), column("headers", TEXT), column("body", BYTES), column("created", FLOAT),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_idempotency_key")),
    )
    op.create_index("ix_idempotency_key_created", "idempotency_key", ["created"])


def run() -> None:
    op.create_table(
        "run",
        column("id", sa.String(32)), column("name", sa.String(255)), column("created", FLOAT),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_run")),
        sa.UniqueConstraint("name", name=op.f("uq_run_name")),
    )


def upload() -> None:
    op.create_table(
        "upload",
        column("id", sa.String(32)), column("filename", TEXT), column("bytes", INT),
        column("sha256", sa.String(64)), column("files", TEXT), column("request", TEXT),
        column("format", sa.String(64), null=True), column("rows", INT), column("accepted", INT),
        column("rejected", INT), column("problem_counts", TEXT),
        column("duplicate_of", sa.String(32), null=True), column("batches_made", INT),
        column("state", sa.String(16)), column("stage", sa.String(32)), column("done", INT),
        column("total", INT), column("attempts", INT), column("revision", INT),
        column("cancel_requested", BOOL), column("error", TEXT, null=True),
        column("executor", sa.String(255), null=True), column("created", FLOAT),
        column("started", FLOAT, null=True), column("finished", FLOAT, null=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_upload")),
    )
    op.create_index("ix_upload_created", "upload", ["created"])
    op.create_index("ix_upload_sha256", "upload", ["sha256"])
    op.create_index("ix_upload_state", "upload", ["state"])


def worker() -> None:
    op.create_table(
        "worker",
        column("executor_id", sa.String(255)), column("host", sa.String(255)), column("pid", INT),
        column("device", sa.String(64)), column("queues", TEXT), column("started", FLOAT),
        column("seen", FLOAT), column("stopped", FLOAT, null=True), column("reaped", FLOAT, null=True),
        sa.PrimaryKeyConstraint("executor_id", name=op.f("pk_worker")),
    )
    op.create_index("ix_worker_seen", "worker", ["seen"])


def batch() -> None:
    op.create_table(
        "batch",
        column("id", sa.String(32)), column("run_id", sa.String(32)), column("upload_id", sa.String(32)),
        column("step", INT, null=True), column("split", sa.String(64), null=True),
        column("state", sa.String(16)), column("format", sa.String(64)), column("rollouts", INT),
        column("groups", INT), column("tokens", INT), column("created", FLOAT), column("codes", TEXT),
        column("fields", TEXT), column("header", TEXT), column("statistics", TEXT),
        column("findings", TEXT),
        sa.ForeignKeyConstraint(["run_id"], ["run.id"], name=op.f("fk_batch_run_id_run"), ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["upload_id"], ["upload.id"], name=op.f("fk_batch_upload_id_upload")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_batch")),
    )
    op.create_index("ix_batch_created", "batch", ["created"])
    op.create_index("ix_batch_run_split_step", "batch", ["run_id", "split", "step"])
    op.create_index("ix_batch_state", "batch", ["state"])
    op.create_index("ix_batch_upload_id", "batch", ["upload_id"])


def panel() -> None:
    op.create_table(
        "panel",
        column("id", sa.String(32)), column("dashboard_id", sa.String(32)), column("position", INT),
        column("kind", sa.String(16)), column("figure", sa.String(64), null=True),
        column("batch_id", sa.String(32), null=True), column("estimate_id", sa.String(32), null=True),
        column("options", TEXT), column("caption", TEXT),
        sa.ForeignKeyConstraint(["dashboard_id"], ["dashboard.id"],
            name=op.f("fk_panel_dashboard_id_dashboard"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_panel")),
    )
    op.create_index("ix_panel_dashboard_id", "panel", ["dashboard_id"])


def problem() -> None:
    op.create_table(
        "problem",
        column("upload_id", sa.String(32)), column("seq", INT), column("file", TEXT, null=True),
        column("row", INT, null=True), column("field", TEXT, null=True), column("severity", sa.String(8)),
        column("code", sa.String(64)), column("message", TEXT),
        sa.ForeignKeyConstraint(["upload_id"], ["upload.id"],
            name=op.f("fk_problem_upload_id_upload"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("upload_id", "seq", name=op.f("pk_problem")),
    )


def share() -> None:
    op.create_table(
        "share",
        column("id", sa.String(32)), column("dashboard_id", sa.String(32)),
        column("token_hash", sa.String(64)), column("created", FLOAT), column("expires", FLOAT),
        column("withdrawn", FLOAT, null=True), column("last_used", FLOAT, null=True), column("uses", INT),
        column("hide_text", BOOL), column("snapshot", BYTES, null=True),
        sa.ForeignKeyConstraint(["dashboard_id"], ["dashboard.id"],
            name=op.f("fk_share_dashboard_id_dashboard"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_share")),
        sa.UniqueConstraint("token_hash", name=op.f("uq_share_token_hash")),
    )
    op.create_index("ix_share_dashboard_id", "share", ["dashboard_id"])


def estimate() -> None:
    op.create_table(
        "estimate",
        column("id", sa.String(32)), column("batch_id", sa.String(32)),
        column("convention", sa.String(96), null=True), column("estimator", sa.String(96)),
        column("request", TEXT), column("request_hash", sa.String(64)), column("default", BOOL),
        column("per_token", BOOL, null=True), column("device", sa.String(64), null=True),
        column("timing", TEXT, null=True), column("summary", TEXT, null=True),
        column("state", sa.String(16)), column("stage", sa.String(32)), column("done", INT),
        column("total", INT), column("attempts", INT), column("revision", INT),
        column("cancel_requested", BOOL), column("error", TEXT, null=True),
        column("executor", sa.String(255), null=True), column("created", FLOAT),
        column("started", FLOAT, null=True), column("finished", FLOAT, null=True),
        sa.ForeignKeyConstraint(["batch_id"], ["batch.id"],
            name=op.f("fk_estimate_batch_id_batch"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_estimate")),
        sa.UniqueConstraint("batch_id", "request_hash", name=op.f("uq_estimate_batch_id")),
    )
    op.create_index("ix_estimate_created", "estimate", ["created"])
    op.create_index("ix_estimate_state", "estimate", ["state"])


def prompt() -> None:
    op.create_table(
        "prompt",
        column("batch_id", sa.String(32)), column("group_no", INT), column("group_id", TEXT),
        column("data_source", TEXT, null=True), column("size", INT), column("scored", INT),
        column("reward_mean", FLOAT, null=True), column("reward_std", FLOAT, null=True),
        column("reward_min", FLOAT, null=True), column("reward_max", FLOAT, null=True),
        column("prompt", TEXT, null=True), column("messages", TEXT, null=True),
        sa.ForeignKeyConstraint(["batch_id"], ["batch.id"],
            name=op.f("fk_prompt_batch_id_batch"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("batch_id", "group_no", name=op.f("pk_prompt")),
    )


def rollout() -> None:
    op.create_table(
        "rollout",
        column("batch_id", sa.String(32)), column("index", INT), column("group_no", INT),
        column("part", INT), column("slot", INT), column("row", INT), column("reward", FLOAT, null=True),
        column("reward_nonfinite", sa.String(16), null=True), column("length", INT, null=True),
        column("valid", INT, null=True), column("advantage", FLOAT, null=True),
        column("truncated", BOOL, null=True), column("terminated", BOOL, null=True),
        column("sample_index", INT, null=True), column("policy_version", INT, null=True),
        column("reward_baseline", FLOAT, null=True), column("bootstrap_value", FLOAT, null=True),
        column("segment", INT, null=True), column("rank", INT, null=True),
        column("micro_batch", INT, null=True), column("digest", sa.String(32)),
        column("data_source", TEXT, null=True), column("finish_reason", TEXT, null=True),
        column("file", TEXT, null=True), column("sample_id", TEXT, null=True),
        column("rollout_id", TEXT, null=True), column("reward_components", TEXT, null=True),
        column("prompt", TEXT, null=True), column("prompt_messages", TEXT, null=True),
        column("response", TEXT, null=True), column("messages", TEXT, null=True),
        column("ground_truth", TEXT, null=True), column("extra", TEXT, null=True),
        sa.ForeignKeyConstraint(["batch_id"], ["batch.id"],
            name=op.f("fk_rollout_batch_id_batch"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("batch_id", "index", name=op.f("pk_rollout")),
    )
    op.create_index("ix_rollout_storage_order", "rollout", ["batch_id", "group_no", "part", "slot"])


def running_moments() -> None:
    op.create_table(
        "running_moments",
        column("batch_id", sa.String(32)), column("key", sa.String(64)), column("unit", sa.String(16)),
        column("run_id", sa.String(32)), column("split", sa.String(64), null=True),
        column("step", INT, null=True), column("count", INT), column("mean", FLOAT), column("m2", FLOAT),
        sa.ForeignKeyConstraint(["batch_id"], ["batch.id"],
            name=op.f("fk_running_moments_batch_id_batch"), ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["run_id"], ["run.id"],
            name=op.f("fk_running_moments_run_id_run"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("batch_id", "key", "unit", name=op.f("pk_running_moments")),
    )
    op.create_index("ix_running_moments_run_id", "running_moments", ["run_id"])


def token_array() -> None:
    op.create_table(
        "token_array",
        column("batch_id", sa.String(32)), column("field", sa.String(96)), column("group_no", INT),
        column("part", INT), column("codec", sa.String(16)), column("dtype", sa.String(8)),
        column("lengths", BYTES), column("checksum", INT), column("data", BYTES),
        sa.ForeignKeyConstraint(["batch_id"], ["batch.id"],
            name=op.f("fk_token_array_batch_id_batch"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("batch_id", "field", "group_no", "part", name=op.f("pk_token_array")),
    )
    op.create_index("ix_token_array_part", "token_array", ["batch_id", "group_no", "part"])
    if op.get_bind().dialect.name == "postgresql":
        # The blobs are compressed already; trying again would cost time and gain nothing.
        op.execute("ALTER TABLE token_array ALTER COLUMN data SET STORAGE EXTERNAL")


def estimate_rollout() -> None:
    op.create_table(
        "estimate_rollout",
        column("estimate_id", sa.String(32)), column("index", INT), column("advantage", FLOAT, null=True),
        column("advantage_raw", FLOAT, null=True), column("raw_m2", FLOAT, null=True),
        column("advantage_min", FLOAT, null=True), column("advantage_max", FLOAT, null=True),
        column("total_abs", FLOAT, null=True),
        sa.ForeignKeyConstraint(["estimate_id"], ["estimate.id"],
            name=op.f("fk_estimate_rollout_estimate_id_estimate"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("estimate_id", "index", name=op.f("pk_estimate_rollout")),
        sqlite_with_rowid=False,
    )


TABLES = (
    dashboard,
    idempotency_key,
    run,
    upload,
    worker,
    batch,
    panel,
    problem,
    share,
    estimate,
    prompt,
    rollout,
    running_moments,
    token_array,
    estimate_rollout,
)


def upgrade() -> None:
    for create in TABLES:
        create()


def downgrade() -> None:
    for create in reversed(TABLES):
        op.drop_table(create.__name__)
