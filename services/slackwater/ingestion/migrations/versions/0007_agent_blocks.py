"""Adds blocks of agents: every change with its author and reason. The last change of a node is in force."""

from __future__ import annotations

from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    op.execute(
        """
        CREATE TABLE agent_blocks (
            node text NOT NULL,
            generation bigint NOT NULL,
            blocked boolean NOT NULL,
            reason text NOT NULL,
            changed_by text NOT NULL,
            changed_at timestamptz NOT NULL,
            PRIMARY KEY (node, generation)
        )
        """
    )


def downgrade() -> None:
    op.execute("DROP TABLE agent_blocks")
