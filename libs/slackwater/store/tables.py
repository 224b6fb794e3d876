"""Table definitions: outbox, inbox and quarantine of every service; members and leases of sharded
ones.
"""

from __future__ import annotations

from typing import Protocol

from slackwater.model.identifiers import PARTITIONS, SHARDS

HAS_SHARD = r"subject ~ '^sw\.v1(\.[a-z_]+){2}\.([0-9]|[1-5][0-9]|6[0-3])\.'"
"""SQL condition: the outbox row's subject is an event's."""
PARTITION_OF_ROW = f"CASE WHEN {HAS_SHARD} THEN split_part(subject, '.', 5)::int * {PARTITIONS} / {SHARDS} END"
"""SQL partition of such a row; null for others. The CASE is needed because PostgreSQL may evaluate
a cast before a condition.
"""


class Operations(Protocol):
    """The subset of `alembic.op` used here."""

    def execute(self, sqltext: str) -> None: ...


_MESSAGING = (
    """
    CREATE TABLE outbox (
        position bigserial PRIMARY KEY,
        id uuid NOT NULL UNIQUE,
        type text NOT NULL,
        subject text NOT NULL,
        headers text NOT NULL,
        payload text NOT NULL,
        created_at timestamptz NOT NULL DEFAULT now(),
        refused text
    ) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000)
    """,
    """
    CREATE TABLE inbox (
        consumer text NOT NULL,
        event_id uuid NOT NULL,
        handled_at timestamptz NOT NULL DEFAULT now(),
        PRIMARY KEY (consumer, event_id)
    )
    """,
    "CREATE INDEX inbox_handled_at ON inbox USING brin (handled_at)",
    # Rows live for milliseconds, and compression was three quarters of the cost of writing one.
    "ALTER TABLE outbox ALTER COLUMN payload SET STORAGE EXTERNAL",
)


_LEASES = (
    """
    CREATE TABLE members (
        member text PRIMARY KEY,
        joined_at timestamptz NOT NULL DEFAULT now(),
        expires_at timestamptz NOT NULL
    ) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000)
    """,
    """
    CREATE TABLE leases (
        partition integer PRIMARY KEY,
        owner text,
        epoch bigint NOT NULL DEFAULT 0,
        changed_at timestamptz NOT NULL DEFAULT now()
    ) WITH (fillfactor = 50)
    """,
    f"INSERT INTO leases (partition) SELECT generate_series(0, {PARTITIONS - 1})",
)


def create_lease_tables(op: Operations) -> None:
    """Create the tables of partition ownership. An owner is alive while its member's heartbeat has
    not expired.
    """
    for statement in _LEASES:
        op.execute(statement)


_QUARANTINE = """
    CREATE TABLE quarantine (
        id text PRIMARY KEY,
        state_table text NOT NULL,
        state_row text NOT NULL,
        node text NOT NULL,
        reason text NOT NULL,
        detail text NOT NULL,
        document text NOT NULL,
        since timestamptz NOT NULL,
        failed_at timestamptz NOT NULL,
        count bigint NOT NULL
    )
"""


def create_quarantine_table(op: Operations) -> None:
    """Create the table of rows and nodes that cannot be read, stored or computed
    (store.quarantine).
    """
    op.execute(_QUARANTINE)


def create_messaging_tables(op: Operations) -> None:
    """Create outbox and inbox; the first migration of every service calls it.

    `refused` holds why the bus will never accept a row: such rows stay for an operator and block no
    others.
    """
    for statement in _MESSAGING:
        op.execute(statement)


_RESOURCES = (
    """
    CREATE TABLE resources (
        kind text NOT NULL,
        name text NOT NULL,
        generation bigint NOT NULL,
        document jsonb,
        changed_at timestamptz NOT NULL DEFAULT now(),
        PRIMARY KEY (kind, name)
    )
    """,
    """
    CREATE TABLE resource_history (
        kind text NOT NULL,
        name text NOT NULL,
        generation bigint NOT NULL,
        document jsonb,
        author text NOT NULL,
        changed_at timestamptz NOT NULL,
        PRIMARY KEY (kind, name, generation)
    )
    """,
)


def create_resource_tables(op: Operations) -> None:
    """Create the history of all kinds of a service, and the table of the kinds that have none of their own
    (store.resource_table).
    """
    for statement in _RESOURCES:
        op.execute(statement)


def create_service_tables(op: Operations) -> None:
    """Create the tables of runtime.replicated; the first migration of a new service calls it."""
    create_messaging_tables(op)
    create_lease_tables(op)
    create_quarantine_table(op)
    create_resource_tables(op)
