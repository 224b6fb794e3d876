"""Adds when a node was deleted. The row stays until its history is dropped, so that a report can bring it back."""

from __future__ import annotations

from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    op.execute("ALTER TABLE nodes ADD COLUMN deleted_at timestamptz")


def downgrade() -> None:
    op.execute("DELETE FROM nodes WHERE deleted_at IS NOT NULL")
    op.execute("ALTER TABLE nodes DROP COLUMN deleted_at")
