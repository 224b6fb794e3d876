"""Evictions through the API server, one row per node."""

from __future__ import annotations

from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    op.execute(
        """
        CREATE TABLE node_evictions (
            node text PRIMARY KEY,
            version bigint NOT NULL,
            document jsonb NOT NULL,
            changed_at timestamptz NOT NULL DEFAULT now()
        )
        """
    )


def downgrade() -> None:
    op.execute("DROP TABLE node_evictions")
