"""Snapshots of the models by partition, the last published prediction of each node, nodes' capacities, policies."""

from __future__ import annotations

from alembic import op

from slackwater.store.resource_table import create_resource_table
from slackwater.store.tables import create_service_tables

revision = "0001"
down_revision = None

_STATEMENTS = (
    """
    CREATE TABLE snapshots (
        id bigserial PRIMARY KEY,
        version integer NOT NULL,
        position bigint NOT NULL,
        checksum text NOT NULL,
        body bytea NOT NULL,
        taken_at timestamptz NOT NULL DEFAULT now(),
        partition integer NOT NULL
    )
    """,
    "ALTER TABLE snapshots ALTER COLUMN body SET STORAGE EXTERNAL",  # already compressed
    "CREATE INDEX snapshots_partition ON snapshots (partition, id)",
    """
    CREATE TABLE published_windows (
        node text PRIMARY KEY,
        until_seconds bigint NOT NULL,
        published_at double precision NOT NULL DEFAULT 0,
        policy text NOT NULL DEFAULT '',
        generation bigint NOT NULL DEFAULT 0,
        edition integer NOT NULL DEFAULT 0,
        amounts bigint[] NOT NULL DEFAULT '{}'
    )
    """,
    """
    CREATE TABLE nodes (
        node text PRIMARY KEY,
        cpu_milli bigint NOT NULL,
        memory_bytes bigint NOT NULL,
        described_at timestamptz NOT NULL,
        pool text NOT NULL DEFAULT 'default'
    )
    """,
)


def upgrade() -> None:
    create_service_tables(op)
    create_resource_table(op, "policies")
    for statement in _STATEMENTS:
        op.execute(statement)
