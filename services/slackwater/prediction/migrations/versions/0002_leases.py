"""Adds members and leases, so that several replicas share the partitions. Each partition has its own snapshots.

Snapshots of the whole are dropped: the windows since yesterday are folded again, by partition.
"""

from __future__ import annotations

from alembic import op

from slackwater.store.tables import create_lease_tables, drop_lease_tables

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    create_lease_tables(op)
    op.execute("DELETE FROM snapshots")
    op.execute("ALTER TABLE snapshots ADD COLUMN partition integer NOT NULL")
    op.execute("CREATE INDEX snapshots_partition ON snapshots (partition, id)")


def downgrade() -> None:
    op.execute("DELETE FROM snapshots")
    op.execute("ALTER TABLE snapshots DROP COLUMN partition")
    drop_lease_tables(op)
