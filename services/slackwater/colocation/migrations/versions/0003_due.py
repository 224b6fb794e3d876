"""Adds `due_at`: the time at which an offer changes without further events, which differs between nodes."""

from __future__ import annotations

from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    op.execute("ALTER TABLE nodes ADD COLUMN due_at bigint NOT NULL DEFAULT 0")
    # The default of decay_from_seconds; a node with another value is updated by its next event.
    op.execute("UPDATE nodes SET due_at = window_end + 180")
    op.execute("ALTER TABLE nodes ALTER COLUMN due_at DROP DEFAULT")
    op.execute("DROP INDEX nodes_ageing")
    op.execute("CREATE INDEX nodes_ageing ON nodes (due_at) WHERE offers")


def downgrade() -> None:
    op.execute("DROP INDEX nodes_ageing")
    op.execute("CREATE INDEX nodes_ageing ON nodes (window_end) WHERE offers")
    op.execute("ALTER TABLE nodes DROP COLUMN due_at")
