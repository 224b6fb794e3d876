"""The read model: one row per node, history by time, decisions and their outcomes.

Bodies are the read model's own shapes as JSON; other columns are only those used for search and order.
"""

from __future__ import annotations

from alembic import op

from slackwater.store.tables import create_messaging_tables, drop_messaging_tables

revision = "0001"
down_revision = None

_TABLES = (
    """
    CREATE TABLE node (
        name text PRIMARY KEY,
        facts jsonb, boot_epoch text, described_at timestamptz,
        liveness text, liveness_changed_at timestamptz,
        usage jsonb, pods jsonb, sampled_at timestamptz,
        offer jsonb, offered_at timestamptz
    ) WITH (fillfactor = 70)
    """,
    """
    CREATE TABLE usage_point (
        event_id text PRIMARY KEY,
        node text NOT NULL,
        sampled_at timestamptz NOT NULL,
        amounts bigint[] NOT NULL,
        body jsonb NOT NULL
    )
    """,
    "CREATE INDEX usage_point_node ON usage_point (node, sampled_at)",
    "CREATE INDEX usage_point_time ON usage_point USING brin (sampled_at) WITH (pages_per_range = 16)",
    """
    CREATE TABLE forecast (
        event_id text PRIMARY KEY, node text NOT NULL, predicted_at timestamptz NOT NULL, body jsonb NOT NULL
    )
    """,
    "CREATE INDEX forecast_node ON forecast (node, predicted_at)",
    """
    CREATE TABLE offer (
        event_id text PRIMARY KEY, node text NOT NULL, offered_at timestamptz NOT NULL, generation bigint NOT NULL,
        body jsonb NOT NULL
    )
    """,
    "CREATE INDEX offer_node ON offer (node, offered_at)",
    """
    CREATE TABLE decision (
        id text PRIMARY KEY,
        node text NOT NULL, kind text NOT NULL, subject text NOT NULL, reason text NOT NULL,
        decided_at timestamptz NOT NULL,
        body jsonb NOT NULL
    )
    """,
    "CREATE INDEX decision_time ON decision (decided_at, id)",
    "CREATE INDEX decision_node ON decision (node, subject, decided_at, id)",
    """
    CREATE TABLE effect (
        decision_id text PRIMARY KEY, measured_at timestamptz NOT NULL, body jsonb NOT NULL
    )
    """,
    """
    CREATE TABLE observation (
        event_id text PRIMARY KEY, observed_at timestamptz NOT NULL, decision_ids text[] NOT NULL, body jsonb NOT NULL
    )
    """,
    "CREATE INDEX observation_decisions ON observation USING gin (decision_ids)",
    """
    CREATE TABLE eviction (
        id text PRIMARY KEY, decision_id text NOT NULL, completed_at timestamptz NOT NULL, body jsonb NOT NULL
    )
    """,
    "CREATE INDEX eviction_decision ON eviction (decision_id)",
)


def upgrade() -> None:
    """Create the read model."""
    create_messaging_tables(op)
    for statement in _TABLES:
        op.execute(statement)


def downgrade() -> None:
    """Drop it: everything here can be consumed again or is pruned over time."""
    for table in ("eviction", "observation", "effect", "decision", "offer", "forecast", "usage_point", "node"):
        op.execute(f"DROP TABLE {table}")
    drop_messaging_tables(op)
