"""Evictions through the API server by node, and what was answered about each custom resource of a cluster."""

from __future__ import annotations

from alembic import op

from slackwater.store.tables import create_service_tables

revision = "0001"
down_revision = None

_STATEMENTS = (
    """
    CREATE TABLE node_evictions (
        node text PRIMARY KEY,
        version bigint NOT NULL,
        document jsonb NOT NULL,
        changed_at timestamptz NOT NULL DEFAULT now()
    )
    """,
    """
    CREATE TABLE cluster_documents (
        key text PRIMARY KEY,
        document jsonb NOT NULL,
        changed_at timestamptz NOT NULL DEFAULT now()
    )
    """,
)


def upgrade() -> None:
    create_service_tables(op)
    for statement in _STATEMENTS:
        op.execute(statement)
