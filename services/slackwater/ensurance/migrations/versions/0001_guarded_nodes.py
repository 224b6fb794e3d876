"""Nodes with their throttles, the policy, outbox and inbox."""

from __future__ import annotations

from alembic import op

from slackwater.store.tables import create_messaging_tables, drop_messaging_tables

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute(
        """
        CREATE TABLE guarded_nodes (
            node text PRIMARY KEY,
            version bigint NOT NULL,
            generation bigint NOT NULL,
            throttled integer NOT NULL,
            document jsonb NOT NULL,
            changed_at timestamptz NOT NULL DEFAULT now()
        )
        """
    )
    op.execute(
        """
        CREATE TABLE policies (
            name text PRIMARY KEY,
            generation bigint NOT NULL,
            document jsonb NOT NULL,
            changed_at timestamptz NOT NULL DEFAULT now()
        )
        """
    )
    create_messaging_tables(op)


def downgrade() -> None:
    drop_messaging_tables(op)
    op.execute("DROP TABLE policies")
    op.execute("DROP TABLE guarded_nodes")
