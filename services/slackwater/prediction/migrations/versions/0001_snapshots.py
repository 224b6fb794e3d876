"""Creates snapshots of the models, the end of the last published window of each node, and nodes' capacities."""

from __future__ import annotations

from alembic import op

from slackwater.store.tables import create_messaging_tables, drop_messaging_tables

revision = "0001"
down_revision = None

_TABLES = (
    """
    CREATE TABLE snapshots (
        id bigserial PRIMARY KEY,
        version integer NOT NULL,
        position bigint NOT NULL,
        checksum text NOT NULL,
        body bytea NOT NULL,
        taken_at timestamptz NOT NULL DEFAULT now()
    )
    """,
    "ALTER TABLE snapshots ALTER COLUMN body SET STORAGE EXTERNAL",  # already compressed
    "CREATE TABLE published_windows (node text PRIMARY KEY, until_seconds bigint NOT NULL)",
    """
    CREATE TABLE nodes (
        node text PRIMARY KEY,
        cpu_milli bigint NOT NULL,
        memory_bytes bigint NOT NULL,
        described_at timestamptz NOT NULL
    )
    """,
)


def upgrade() -> None:
    create_messaging_tables(op)
    for statement in _TABLES:
        op.execute(statement)


def downgrade() -> None:
    for table in ("nodes", "published_windows", "snapshots"):
        op.execute(f"DROP TABLE {table}")
    drop_messaging_tables(op)
