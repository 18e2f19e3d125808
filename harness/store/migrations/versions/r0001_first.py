"""The first schema."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

ID = sa.LargeBinary(16).with_variant(sa.Uuid(), "postgresql")
BYTES = sa.LargeBinary()
TEXT = sa.Text()
TIME = sa.String(27).with_variant(sa.DateTime(timezone=True), "postgresql")
MONEY = sa.String().with_variant(sa.Numeric(), "postgresql")
BIG = sa.BigInteger().with_variant(sa.Integer(), "sqlite")

CACHE_VIEW = """
CREATE VIEW llm_cache AS
SELECT exact_key, semantic_key, id AS message_id, run_id, occurrence, endpoint, model, started_at
FROM messages WHERE status = 'ok' AND cache_state = 'live'
"""


_COUNT_NEW = (
    "INSERT INTO outbox_counts (kind, state, share, entries) VALUES (NEW.kind, NEW.state, 0, 1) "
    "ON CONFLICT (kind, state, share) DO UPDATE SET entries = entries + 1;"
)
_COUNT_OLD = "UPDATE outbox_counts SET entries = entries - 1 WHERE kind = OLD.kind AND state = OLD.state;"
_COUNT_ROWS = """
    INSERT INTO outbox_counts AS counted (kind, state, share, entries)
    SELECT kind, state, pg_backend_pid() % 32, sum(n) FROM ({}) AS rows
    GROUP BY kind, state HAVING sum(n) <> 0 ORDER BY kind, state
    ON CONFLICT (kind, state, share) DO UPDATE SET entries = counted.entries + excluded.entries;
"""
_GAINED, _LOST = "SELECT kind, state, 1 AS n FROM gained", "SELECT kind, state, -1 AS n FROM lost"
COUNTING = {
    "sqlite": (
        f"CREATE TRIGGER outbox_entered AFTER INSERT ON outbox BEGIN {_COUNT_NEW} END",
        "CREATE TRIGGER outbox_moved AFTER UPDATE OF kind, state ON outbox "
        f"WHEN NEW.state <> OLD.state OR NEW.kind <> OLD.kind BEGIN {_COUNT_OLD} {_COUNT_NEW} END",
        f"CREATE TRIGGER outbox_left AFTER DELETE ON outbox BEGIN {_COUNT_OLD} END",
    ),
    # Once per statement there, whatever number of rows; a session has a share of its own unless 32 are exceeded.
    "postgresql": (
        f"""
CREATE FUNCTION outbox_count() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN {_COUNT_ROWS.format(_GAINED)}
    ELSIF TG_OP = 'DELETE' THEN {_COUNT_ROWS.format(_LOST)}
    ELSE {_COUNT_ROWS.format(f"{_GAINED} UNION ALL {_LOST}")}
    END IF;
    RETURN NULL;
END $$""",
        "CREATE TRIGGER outbox_entered AFTER INSERT ON outbox REFERENCING NEW TABLE AS gained "
        "FOR EACH STATEMENT EXECUTE FUNCTION outbox_count()",
        "CREATE TRIGGER outbox_moved AFTER UPDATE ON outbox REFERENCING NEW TABLE AS gained OLD TABLE AS lost "
        "FOR EACH STATEMENT EXECUTE FUNCTION outbox_count()",
        "CREATE TRIGGER outbox_left AFTER DELETE ON outbox REFERENCING OLD TABLE AS lost "
        "FOR EACH STATEMENT EXECUTE FUNCTION outbox_count()",
    ),
}
"""What keeps ``outbox_counts``."""


def upgrade() -> None:
    """Create every table."""
    for create in (_recording, _content, _datasets, _experiments, _work):
        create()
    op.execute(CACHE_VIEW)
    for statement in COUNTING[op.get_bind().dialect.name]:
        op.execute(statement)


def _recording() -> None:
    op.create_table(
        "runs",
        sa.Column("id", ID, nullable=False),
        sa.Column("workflow", TEXT, nullable=False),
        sa.Column("status", TEXT, nullable=False),
        sa.Column("mode", TEXT, nullable=False),
        sa.Column("arm", TEXT, nullable=False),
        sa.Column("trial", sa.Integer(), nullable=False, server_default="0"),
        sa.Column("case", TEXT),
        sa.Column("experiment", TEXT),
        sa.Column("owner", TEXT, nullable=False),
        sa.Column("heartbeat_at", TIME),
        sa.Column("started_at", TIME, nullable=False),
        sa.Column("ended_at", TIME),
        sa.Column("input_hash", BYTES),
        sa.Column("input_order", BYTES),
        sa.Column("output_hash", BYTES),
        sa.Column("error", TEXT),
        sa.Column("tags", TEXT, nullable=False),
        sa.Column("meta", TEXT, nullable=False),
        sa.Column("parent_run_id", TEXT),
        sa.Column("fork_step", TEXT),
        sa.Column("change", TEXT),
        sa.Column("code_version", TEXT),
        sa.Column("fidelity", TEXT, nullable=False),
        sa.Column("usable", sa.Boolean(), nullable=False),
        sa.Column("rules", TEXT, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_runs"),
    )
    op.create_index("ix_runs_experiment", "runs", ["experiment"])
    op.create_index("ix_runs_parent_run_id", "runs", ["parent_run_id"])
    op.create_index("ix_runs_status", "runs", ["status"])
    op.create_index("ix_runs_workflow_id", "runs", ["workflow", "id"])
    op.create_table(
        "steps",
        sa.Column("id", ID, nullable=False),
        sa.Column("run_id", ID, nullable=False),
        sa.Column("parent_step_id", ID),
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.Column("name", TEXT, nullable=False),
        sa.Column("kind", TEXT, nullable=False),
        sa.Column("scope", TEXT, nullable=False),
        sa.Column("occurrence", sa.Integer(), nullable=False),
        sa.Column("step_key", BYTES, nullable=False),
        sa.Column("status", TEXT, nullable=False),
        sa.Column("state", TEXT, nullable=False),
        sa.Column("determinism", TEXT),
        sa.Column("ttl", sa.Float()),
        sa.Column("version", TEXT),
        sa.Column("input_hash", BYTES),
        sa.Column("output_hash", BYTES),
        sa.Column("output_order", BYTES),
        sa.Column("mutated", sa.Boolean(), nullable=False),
        sa.Column("reused_from", TEXT),
        sa.Column("error", TEXT),
        sa.Column("started_at", TIME, nullable=False),
        sa.Column("duration_ms", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_steps"),
    )
    op.create_index("ix_steps_run_id_seq", "steps", ["run_id", "seq"])
    op.create_table(
        "step_edges",
        sa.Column("run_id", ID, nullable=False),
        sa.Column("source_step_id", ID, nullable=False),
        sa.Column("target_step_id", ID, nullable=False),
        sa.Column("kind", TEXT, nullable=False),
        sa.Column("content_hash", BYTES),
        sa.PrimaryKeyConstraint("run_id", "source_step_id", "target_step_id", "kind", name="pk_step_edges"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "messages",
        sa.Column("id", ID, nullable=False),
        sa.Column("run_id", ID, nullable=False),
        sa.Column("step_id", ID),
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.Column("scope", TEXT, nullable=False),
        sa.Column("method", TEXT, nullable=False),
        sa.Column("endpoint", TEXT, nullable=False),
        sa.Column("provider", TEXT, nullable=False),
        sa.Column("exact_key", BYTES, nullable=False),
        sa.Column("semantic_key", BYTES, nullable=False),
        sa.Column("occurrence", sa.Integer(), nullable=False),
        sa.Column("request_hash", BYTES, nullable=False),
        sa.Column("request_chain", BIG),
        sa.Column("request_type", TEXT),
        sa.Column("streamed", sa.Boolean(), nullable=False),
        sa.Column("status", TEXT, nullable=False),
        sa.Column("cache_state", TEXT, nullable=False),
        sa.Column("replay_of", TEXT),
        sa.Column("model", TEXT),
        sa.Column("model_served", TEXT),
        sa.Column("system_fingerprint", TEXT),
        sa.Column("prompt_name", TEXT),
        sa.Column("prompt_version", TEXT),
        sa.Column("temperature", sa.Float()),
        sa.Column("seed", BIG),
        sa.Column("max_tokens", BIG),
        sa.Column("params", TEXT, nullable=False),
        sa.Column("input_tokens", BIG),
        sa.Column("output_tokens", BIG),
        sa.Column("cached_tokens", BIG),
        sa.Column("reasoning_tokens", BIG),
        sa.Column("cost", MONEY),
        sa.Column("currency", TEXT),
        sa.Column("finish_reasons", TEXT, nullable=False),
        sa.Column("latency_ms", sa.Float()),
        sa.Column("first_chunk_ms", sa.Float()),
        sa.Column("error", TEXT),
        sa.Column("started_at", TIME, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_messages"),
    )
    op.create_index("ix_messages_exact_key", "messages", ["exact_key"])
    op.create_index("ix_messages_run_id_seq", "messages", ["run_id", "seq"])
    op.create_table(
        "exchanges",
        sa.Column("message_id", ID, nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False, autoincrement=False),
        sa.Column("status", sa.Integer()),
        sa.Column("headers", BYTES, nullable=False),
        sa.Column("body_hash", BYTES),
        sa.Column("chunks", BYTES),
        sa.Column("error", TEXT),
        sa.PrimaryKeyConstraint("message_id", "attempt", name="pk_exchanges"),
        sa.ForeignKeyConstraint(["message_id"], ["messages.id"], name="fk_exchanges_message_id"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "chunks",
        sa.Column("message_id", ID, nullable=False),
        sa.Column("number", sa.Integer(), nullable=False, autoincrement=False),
        sa.Column("data", BYTES, nullable=False),
        sa.Column("offset_ms", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("message_id", "number", name="pk_chunks"),
    )
    op.create_table(
        "volatile",
        sa.Column("seq", BIG, nullable=False),
        sa.Column("run_id", ID, nullable=False),
        sa.Column("step_id", ID),
        sa.Column("scope", TEXT, nullable=False),
        sa.Column("name", TEXT, nullable=False),
        sa.Column("occurrence", sa.Integer(), nullable=False),
        sa.Column("value", TEXT),
        sa.PrimaryKeyConstraint("seq", name="pk_volatile"),
        sa.UniqueConstraint("run_id", "scope", "name", "occurrence", name="uq_volatile_run_id_scope_name_occurrence"),
    )


def _content() -> None:
    op.create_table(
        "blobs",
        sa.Column("id", BIG, nullable=False),
        sa.Column("hash", BYTES, nullable=False),
        sa.Column("size", BIG, nullable=False),
        sa.Column("codec", sa.SmallInteger(), nullable=False),
        sa.Column("base", BIG),
        sa.Column("chain", BIG),
        sa.Column("data", BYTES, nullable=False),
        sa.Column("touched", BIG, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_blobs"),
        sa.UniqueConstraint("hash", name="uq_blobs_hash"),
    )
    op.create_table(
        "chains",
        sa.Column("id", BIG, nullable=False),
        sa.Column("prev", BIG, nullable=False),
        sa.Column("blob", BIG, nullable=False),
        sa.Column("touched", BIG, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_chains"),
        sa.UniqueConstraint("prev", "blob", name="uq_chains_prev_blob"),
        sa.ForeignKeyConstraint(["blob"], ["blobs.id"], name="fk_chains_blob"),
    )
    op.create_table(
        "tool_cache",
        sa.Column("key", TEXT, nullable=False),
        sa.Column("tool", TEXT),
        sa.Column("version", TEXT),
        sa.Column("determinism", TEXT),
        sa.Column("output_hash", BYTES),
        sa.Column("ttl", sa.Float()),
        sa.Column("stored_at", TIME, nullable=False),
        sa.Column("extra", TEXT),
        sa.PrimaryKeyConstraint("key", name="pk_tool_cache"),
    )


def _datasets() -> None:
    op.create_table(
        "labels",
        sa.Column("id", TEXT, nullable=False),
        sa.Column("run_id", TEXT),
        sa.Column("step_id", TEXT),
        sa.Column("case", TEXT),
        sa.Column("output_hash", BYTES),
        sa.Column("name", TEXT),
        sa.Column("value", TEXT),
        sa.Column("rubric", TEXT),
        sa.Column("annotator", TEXT),
        sa.Column("comment", TEXT),
        sa.Column("created_at", TIME, nullable=False),
        sa.Column("extra", TEXT),
        sa.PrimaryKeyConstraint("id", name="pk_labels"),
    )
    op.create_index("ix_labels_run_id", "labels", ["run_id"])
    op.create_table(
        "reviews",
        sa.Column("id", TEXT, nullable=False),
        sa.Column("dataset", TEXT),
        sa.Column("run_id", TEXT),
        sa.Column("case", TEXT),
        sa.Column("reason", TEXT),
        sa.Column("state", TEXT),
        sa.Column("reviewer", TEXT),
        sa.Column("created_at", TIME, nullable=False),
        sa.Column("decided_at", TIME),
        sa.Column("extra", TEXT),
        sa.PrimaryKeyConstraint("id", name="pk_reviews"),
    )
    op.create_index("ix_reviews_state", "reviews", ["state"])
    op.create_table(
        "datasets",
        sa.Column("name", TEXT, nullable=False),
        sa.Column("path", TEXT),
        sa.Column("version", sa.Integer()),
        sa.Column("digest", TEXT),
        sa.Column("seen_at", TIME, nullable=False),
        sa.Column("extra", TEXT),
        sa.PrimaryKeyConstraint("name", name="pk_datasets"),
    )
    op.create_table(
        "dataset_versions",
        sa.Column("dataset", TEXT, nullable=False),
        sa.Column("version", sa.Integer(), nullable=False, autoincrement=False),
        sa.Column("digest", TEXT),
        sa.Column("cases", sa.Integer()),
        sa.Column("note", TEXT),
        sa.Column("created_at", TIME, nullable=False),
        sa.Column("extra", TEXT),
        sa.PrimaryKeyConstraint("dataset", "version", name="pk_dataset_versions"),
    )
    op.create_table(
        "cases",
        sa.Column("dataset", TEXT, nullable=False),
        sa.Column("version", sa.Integer(), nullable=False, autoincrement=False),
        sa.Column("case", TEXT, nullable=False),
        sa.Column("digest", TEXT),
        sa.Column("split", TEXT),
        sa.Column("group", TEXT),
        sa.Column("tags", TEXT),
        sa.Column("run_id", TEXT),
        sa.Column("extra", TEXT),
        sa.PrimaryKeyConstraint("dataset", "version", "case", name="pk_cases"),
    )


def _experiments() -> None:
    op.create_table(
        "experiments",
        sa.Column("id", TEXT, nullable=False),
        sa.Column("dataset", TEXT),
        sa.Column("version", sa.Integer()),
        sa.Column("digest", TEXT),
        sa.Column("target", TEXT),
        sa.Column("mode", TEXT),
        sa.Column("change", TEXT),
        sa.Column("code_version", TEXT),
        sa.Column("status", TEXT),
        sa.Column("verdict", TEXT),
        sa.Column("exit_code", sa.Integer()),
        sa.Column("budget", MONEY),
        sa.Column("started_at", TIME, nullable=False),
        sa.Column("ended_at", TIME),
        sa.Column("extra", TEXT),
        sa.PrimaryKeyConstraint("id", name="pk_experiments"),
    )
    op.create_index("ix_experiments_dataset", "experiments", ["dataset"])
    op.create_table(
        "trials",
        sa.Column("experiment", TEXT, nullable=False),
        sa.Column("case", TEXT, nullable=False),
        sa.Column("arm", TEXT, nullable=False, server_default="recorded"),
        sa.Column("trial", sa.Integer(), nullable=False, server_default="0", autoincrement=False),
        sa.Column("run_id", TEXT),
        sa.Column("status", TEXT),
        sa.Column("output_hash", BYTES),
        sa.Column("equal", sa.Boolean()),
        sa.Column("error", TEXT),
        sa.Column("attempt", TEXT),
        sa.Column("stored_at", TIME, nullable=False),
        sa.Column("extra", TEXT),
        sa.PrimaryKeyConstraint("experiment", "case", "arm", "trial", name="pk_trials"),
    )
    op.create_index("ix_trials_run_id", "trials", ["run_id"])
    op.create_table(
        "reservations",
        sa.Column("id", TEXT, nullable=False),
        sa.Column("experiment", TEXT),
        sa.Column("case", TEXT),
        sa.Column("amount", MONEY),
        sa.Column("tokens", BIG),
        sa.Column("spent", MONEY),
        sa.Column("spent_tokens", BIG),
        sa.Column("state", TEXT),
        sa.Column("created_at", TIME, nullable=False),
        sa.Column("extra", TEXT),
        sa.PrimaryKeyConstraint("id", name="pk_reservations"),
    )
    op.create_index("ix_reservations_experiment", "reservations", ["experiment"])
    op.create_table(
        "scores",
        sa.Column("experiment", TEXT, nullable=False),
        sa.Column("case", TEXT, nullable=False, server_default=""),
        sa.Column("arm", TEXT, nullable=False, server_default="recorded"),
        sa.Column("trial", sa.Integer(), nullable=False, server_default="0", autoincrement=False),
        sa.Column("evaluator", TEXT, nullable=False, server_default=""),
        sa.Column("name", TEXT, nullable=False),
        sa.Column("version", TEXT),
        sa.Column("status", TEXT),
        sa.Column("value", TEXT),
        sa.Column("reason", TEXT),
        sa.Column("low", sa.Float()),
        sa.Column("high", sa.Float()),
        sa.Column("n", sa.Integer()),
        sa.Column("detail", TEXT),
        sa.Column("extra", TEXT),
        sa.PrimaryKeyConstraint("experiment", "case", "arm", "trial", "evaluator", "name", name="pk_scores"),
    )


def _work() -> None:
    op.create_table(
        "outbox",
        sa.Column("kind", TEXT, nullable=False),
        sa.Column("id", TEXT, nullable=False),
        sa.Column("state", TEXT, nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("created_at", TIME, nullable=False),
        sa.Column("due_at", TIME, nullable=False),
        sa.Column("updated_at", TIME),
        sa.Column("error", TEXT),
        sa.Column("frozen", BYTES),
        sa.Column("frozen_hash", BYTES),
        sa.Column("round", sa.Integer(), nullable=False),
        sa.Column("extra", TEXT),
        sa.PrimaryKeyConstraint("kind", "id", name="pk_outbox"),
    )
    op.create_index("ix_outbox_kind_state_created_at", "outbox", ["kind", "state", "created_at"])
    op.create_index("ix_outbox_kind_state_due_at", "outbox", ["kind", "state", "due_at"])
    op.create_table(
        "outbox_counts",
        sa.Column("kind", TEXT, nullable=False),
        sa.Column("state", TEXT, nullable=False),
        sa.Column("share", sa.Integer(), nullable=False),
        sa.Column("entries", BIG, nullable=False),
        sa.PrimaryKeyConstraint("kind", "state", "share", name="pk_outbox_counts"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "leases",
        sa.Column("name", TEXT, nullable=False),
        sa.Column("owner", TEXT),
        sa.Column("expires_at", TIME),
        sa.Column("extra", TEXT),
        sa.PrimaryKeyConstraint("name", name="pk_leases"),
    )
