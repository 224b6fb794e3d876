"""Whether a node takes new pods, as last reported."""

from __future__ import annotations

from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Add it; a node without a condition takes new pods."""
    op.execute("ALTER TABLE node ADD COLUMN conditions jsonb, ADD COLUMN conditions_told_at timestamptz")


def downgrade() -> None:
    """Drop it."""
    op.execute("ALTER TABLE node DROP COLUMN conditions, DROP COLUMN conditions_told_at")
