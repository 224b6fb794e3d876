"""The pods of a node's last report and the outbox's events are stored uncompressed (decision 0054)."""

from __future__ import annotations

from alembic import op

from slackwater.store.tables import keep_events_plain

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    keep_events_plain(op)
    op.execute("ALTER TABLE node ALTER COLUMN pods SET STORAGE EXTERNAL")


def downgrade() -> None:
    op.execute("ALTER TABLE node ALTER COLUMN pods SET STORAGE EXTENDED")
    keep_events_plain(op, plain=False)
