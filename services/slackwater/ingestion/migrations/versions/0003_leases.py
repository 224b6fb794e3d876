"""Adds members and leases, so that several replicas share the partitions."""

from __future__ import annotations

from alembic import op

from slackwater.store.tables import create_lease_tables, drop_lease_tables

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    create_lease_tables(op)


def downgrade() -> None:
    drop_lease_tables(op)
