"""Outbox, inbox, members, leases, quarantine; DeschedulerProfiles with their history."""

from __future__ import annotations

from alembic import op

from slackwater.store.tables import create_service_tables, drop_service_tables

revision = "0001"
down_revision = None


def upgrade() -> None:
    create_service_tables(op)


def downgrade() -> None:
    drop_service_tables(op)
