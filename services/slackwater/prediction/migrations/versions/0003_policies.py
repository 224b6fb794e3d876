"""Adds policy documents for predictions, for the cluster and for pools.

A deleted document leaves its row with its generation, so that a generation is never reused.
"""

from __future__ import annotations

from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    op.execute(
        """
        CREATE TABLE policies (
            name text PRIMARY KEY,
            generation bigint NOT NULL,
            document jsonb,
            changed_at timestamptz NOT NULL DEFAULT now()
        )
        """
    )


def downgrade() -> None:
    op.execute("DROP TABLE policies")
