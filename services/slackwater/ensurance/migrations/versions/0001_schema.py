"""Guarded nodes with their throttles, pools that may evict, and one table for each kind of document."""

from __future__ import annotations

from alembic import op

from slackwater.store.resource_table import create_resource_table
from slackwater.store.tables import create_service_tables

revision = "0001"
down_revision = None

TABLES = ("node_qos", "pod_qos", "avoidance_actions", "autonomies")
_STATEMENTS = (
    """
    CREATE TABLE guarded_nodes (
        node text PRIMARY KEY,
        version bigint NOT NULL,
        generation bigint NOT NULL,
        throttled integer NOT NULL,
        document jsonb NOT NULL,
        changed_at timestamptz NOT NULL DEFAULT now()
    )
    """,
    """
    CREATE TABLE pool_autonomy (
        pool text PRIMARY KEY,
        version bigint NOT NULL,
        document jsonb NOT NULL,
        changed_at timestamptz NOT NULL DEFAULT now()
    )
    """,
)


def upgrade() -> None:
    create_service_tables(op)
    for table in TABLES:
        create_resource_table(op, table)
    for statement in _STATEMENTS:
        op.execute(statement)
