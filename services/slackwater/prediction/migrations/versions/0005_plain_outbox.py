"""Stores events in the outbox uncompressed."""

from __future__ import annotations

from alembic import op

from slackwater.store.tables import keep_events_plain

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    keep_events_plain(op)


def downgrade() -> None:
    keep_events_plain(op, plain=False)
