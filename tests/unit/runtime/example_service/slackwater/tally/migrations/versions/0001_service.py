"""Outbox, inbox, members, leases and quarantine."""

from __future__ import annotations

from alembic import op

from slackwater.store.tables import create_service_tables

revision = "0001"
down_revision = None


def upgrade() -> None:
    create_service_tables(op)
