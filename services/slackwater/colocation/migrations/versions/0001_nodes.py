"""Creates one row per node: its state as a document, and the columns that the timer queries."""

from __future__ import annotations

from alembic import op

from slackwater.store.tables import create_messaging_tables, drop_messaging_tables

revision = "0001"
down_revision = None

_TABLES = (
    """
    CREATE TABLE nodes (
        node text PRIMARY KEY,
        state jsonb NOT NULL,
        window_end bigint NOT NULL,
        offers boolean NOT NULL,
        changed_at timestamptz NOT NULL DEFAULT now()
    )
    """,
    "CREATE INDEX nodes_ageing ON nodes (window_end) WHERE offers",
)


def upgrade() -> None:
    create_messaging_tables(op)
    for statement in _TABLES:
        op.execute(statement)


def downgrade() -> None:
    op.execute("DROP TABLE nodes")
    drop_messaging_tables(op)
