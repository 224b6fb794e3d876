"""The inventory of nodes and pods, refusals, blocks of agents, and history partitioned by the day of its midpoint.

The pods of a report are one row: PostgreSQL needs 112 to 131 us for a report of 30 pods, and 193 to 290 us with one row
per pod. The arrays are stored uncompressed, because compressing them took twice the time of all other work on a report
and saved a fifth of the space. `pod_usage` shows one row per pod.
"""

from __future__ import annotations

from alembic import op

from slackwater.store.tables import create_lease_tables, create_messaging_tables, create_quarantine_table

revision = "0001"
down_revision = None

_INVENTORY = (
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
        hole_seen_at timestamptz,
        deleted_at timestamptz
    ) WITH (fillfactor = 60)
    """,
    """
    CREATE TABLE pods (
        uid text PRIMARY KEY,
        node text NOT NULL,
        pod jsonb NOT NULL,
        last_seen_at timestamptz NOT NULL,
        liveness text NOT NULL,
        present boolean NOT NULL DEFAULT true
    ) WITH (fillfactor = 60)
    """,
    "CREATE INDEX pods_node ON pods (node)",
    "CREATE INDEX pods_gone ON pods (last_seen_at) WHERE NOT present AND liveness <> 'lost'",
    """
    CREATE TABLE refusals (
        node text NOT NULL,
        reason text NOT NULL,
        count bigint NOT NULL,
        last_at timestamptz NOT NULL,
        PRIMARY KEY (node, reason)
    )
    """,
    """
    CREATE TABLE agent_blocks (
        node text NOT NULL,
        generation bigint NOT NULL,
        blocked boolean NOT NULL,
        reason text NOT NULL,
        changed_by text NOT NULL,
        changed_at timestamptz NOT NULL,
        PRIMARY KEY (node, generation)
    )
    """,
)
"""A row of `nodes` with `deleted_at` stays until its history is dropped, so that a report can bring the node back. A
pod that is `present` was last seen with its node, so only changes are written; `last_seen_at` is exact for the others.
"""
_HISTORY = (
    # A distribution is one array: avg, p50, p90, p95, p99, max, last, count. `host_apps` is JSON, null without any.
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
        prod_cpu_max double precision,
        host_apps text
    ) PARTITION BY RANGE (midpoint_at)
    """,
    "CREATE INDEX node_usage_node ON node_usage (node, midpoint_at)",
    # Each array has one element per pod; a row of `cpu` and `memory` is a distribution as in node_usage. A limit of -1
    # means no limit; a ratio of NaN means unknown.
    """
    CREATE TABLE report_pods (
        midpoint_at timestamptz NOT NULL,
        node text NOT NULL,
        boot_epoch text NOT NULL,
        sequence bigint NOT NULL,
        uids text[] NOT NULL,
        tiers text[] NOT NULL,
        cpu bigint[] NOT NULL,
        memory bigint[] NOT NULL,
        cpu_limits bigint[] NOT NULL,
        throttled double precision[] NOT NULL,
        cpu_pressure double precision[] NOT NULL
    ) PARTITION BY RANGE (midpoint_at)
    """,
    "CREATE INDEX report_pods_node ON report_pods (node, midpoint_at)",
    """
    CREATE VIEW pod_usage AS
    SELECT midpoint_at, node, boot_epoch, sequence, uids[place] AS uid, tiers[place] AS tier,
        ARRAY(SELECT unnest(cpu[place:place])) AS cpu, ARRAY(SELECT unnest(memory[place:place])) AS memory,
        nullif(cpu_limits[place], -1) AS cpu_limit_milli, nullif(throttled[place], 'NaN') AS throttled_ratio,
        nullif(cpu_pressure[place], 'NaN') AS cpu_pressure
    FROM report_pods CROSS JOIN LATERAL generate_subscripts(uids, 1) AS place
    """,
)
_UNCOMPRESSED = ("uids", "tiers", "cpu", "memory", "cpu_limits", "throttled", "cpu_pressure")


def upgrade() -> None:
    create_messaging_tables(op)
    create_lease_tables(op)
    create_quarantine_table(op)
    for statement in (*_INVENTORY, *_HISTORY):
        op.execute(statement)
    for column in _UNCOMPRESSED:  # partitions inherit it
        op.execute(f"ALTER TABLE report_pods ALTER COLUMN {column} SET STORAGE EXTERNAL")
