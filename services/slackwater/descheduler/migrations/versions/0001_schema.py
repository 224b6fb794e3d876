"""The last cycle of each profile, the moves of the last day by pod, and plans: recommended, applied, measured."""

from __future__ import annotations

from alembic import op

from slackwater.store.tables import create_service_tables

revision = "0001"
down_revision = None

_STATEMENTS = (
    """
    CREATE TABLE profile_cycles (
        profile text PRIMARY KEY,
        generation bigint NOT NULL,
        document jsonb NOT NULL,
        changed_at timestamptz NOT NULL DEFAULT now()
    ) WITH (fillfactor = 50)
    """,
    """
    CREATE TABLE workload_moves (
        pod_uid text PRIMARY KEY,
        workload text NOT NULL,
        moved_at_s double precision NOT NULL,
        target text NOT NULL,
        until_s double precision NOT NULL,
        job text NOT NULL
    )
    """,
    """
    CREATE TABLE move_plans (
        id text PRIMARY KEY,
        generation bigint NOT NULL,
        state text NOT NULL,
        document jsonb NOT NULL,
        changed_at timestamptz NOT NULL DEFAULT now()
    ) WITH (fillfactor = 50)
    """,
    "CREATE INDEX move_plans_state ON move_plans (state)",
)


def upgrade() -> None:
    create_service_tables(op)
    for statement in _STATEMENTS:
        op.execute(statement)
