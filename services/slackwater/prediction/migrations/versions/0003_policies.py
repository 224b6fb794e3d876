"""Policy documents: what operators decide about predictions, for the cluster and for pools.

A deleted document leaves its row with the generation it had, so that a generation never means two things.
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
