"""Creates the inventory of nodes and pods, refusals, and history partitioned by the day of its midpoint."""

from __future__ import annotations

from alembic import op

from slackwater.store.tables import create_messaging_tables, drop_messaging_tables

revision = "0001"
down_revision = None

_TABLES = (
    """
    CREATE TABLE nodes (
        name text PRIMARY KEY,
        facts jsonb,
        described_epoch text,
        described_at timestamptz,
        cpu_capacity_milli bigint,
        memory_capacity_bytes bigint,
        boot_epoch text,
        previous_epoch text,
        last_sequence bigint NOT NULL DEFAULT 0,
        missing bigint[] NOT NULL DEFAULT '{}',
        last_report_at timestamptz,
        liveness text,
        newest_at timestamptz,
        closed_until timestamptz,
        gaps bigint NOT NULL DEFAULT 0,
        hole_from timestamptz,
        hole_seen_at timestamptz
    ) WITH (fillfactor = 60)
    """,
    """
    CREATE TABLE pods (
        uid text PRIMARY KEY,
        node text NOT NULL,
        pod jsonb NOT NULL,
        last_seen_at timestamptz NOT NULL,
        liveness text NOT NULL
    ) WITH (fillfactor = 60)
    """,
    """
    CREATE TABLE refusals (
        node text NOT NULL,
        reason text NOT NULL,
        count bigint NOT NULL,
        last_at timestamptz NOT NULL,
        PRIMARY KEY (node, reason)
    )
    """,
    # A distribution is one array: avg, p50, p90, p95, p99, max, last, count.
    """
    CREATE TABLE node_usage (
        midpoint_at timestamptz NOT NULL,
        node text NOT NULL,
        boot_epoch text NOT NULL,
        sequence bigint NOT NULL,
        sampled_at timestamptz NOT NULL,
        received_at timestamptz NOT NULL,
        window_seconds double precision NOT NULL,
        gap_delta bigint NOT NULL,
        late boolean NOT NULL,
        cpu bigint[] NOT NULL,
        memory bigint[] NOT NULL,
        system_cpu bigint[],
        system_memory bigint[],
        node_cpu_last double precision,
        node_cpu_avg double precision,
        node_cpu_max double precision,
        node_memory_avg double precision,
        node_io_avg double precision,
        prod_cpu_last double precision,
        prod_cpu_avg double precision,
        prod_cpu_max double precision
    ) PARTITION BY RANGE (midpoint_at)
    """,
    "CREATE INDEX node_usage_node ON node_usage (node, midpoint_at)",
    """
    CREATE TABLE pod_usage (
        midpoint_at timestamptz NOT NULL,
        node text NOT NULL,
        boot_epoch text NOT NULL,
        sequence bigint NOT NULL,
        uid text NOT NULL,
        tier text NOT NULL,
        cpu bigint[] NOT NULL,
        memory bigint[] NOT NULL,
        cpu_limit_milli bigint,
        throttled_ratio double precision,
        cpu_pressure double precision
    ) PARTITION BY RANGE (midpoint_at)
    """,
    "CREATE INDEX pod_usage_node ON pod_usage (node, midpoint_at)",
)


def upgrade() -> None:
    create_messaging_tables(op)
    for statement in _TABLES:
        op.execute(statement)


def downgrade() -> None:
    for table in ("pod_usage", "node_usage", "refusals", "pods", "nodes"):
        op.execute(f"DROP TABLE {table}")
    drop_messaging_tables(op)
