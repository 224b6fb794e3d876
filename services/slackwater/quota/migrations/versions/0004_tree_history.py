"""What each tree had, declared, requested and used, moment by moment."""

from __future__ import annotations

from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    op.execute(
        """
        CREATE TABLE tree_history (
            moment text PRIMARY KEY,
            tree text NOT NULL,
            document jsonb NOT NULL
        )
        """
    )


def downgrade() -> None:
    op.execute("DROP TABLE tree_history")
