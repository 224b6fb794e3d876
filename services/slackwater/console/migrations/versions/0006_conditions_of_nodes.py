"""Whether a node takes new pods, as it was told last."""

from __future__ import annotations

from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Add it; a node of which nothing was told takes new pods."""
    op.execute("ALTER TABLE node ADD COLUMN conditions jsonb, ADD COLUMN conditions_told_at timestamptz")


def downgrade() -> None:
    """Forget it."""
    op.execute("ALTER TABLE node DROP COLUMN conditions, DROP COLUMN conditions_told_at")
