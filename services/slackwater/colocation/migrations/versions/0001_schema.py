"""Strategies, and one row per node: facts as a document, columns that the timer and the followers query.

`held` (pods and peaks) is text, because no statement reads it: as part of the JSONB it was parsed and compressed with
every window and every peak, 0.59 ms of PostgreSQL's CPU for a node of 20 pods instead of 0.10 ms.
A deleted strategy leaves its row with the generation it had, so that a generation never means two things.
"""

from __future__ import annotations

from alembic import op

from slackwater.store.resource_table import create_resource_table
from slackwater.store.tables import create_service_tables

revision = "0001"
down_revision = None

_STATEMENTS = (
    """
    CREATE TABLE nodes (
        node text PRIMARY KEY,
        facts jsonb NOT NULL,
        window_end bigint NOT NULL,
        offers boolean NOT NULL,
        changed_at timestamptz NOT NULL DEFAULT now(),
        due_at bigint NOT NULL,
        strategies jsonb GENERATED ALWAYS AS (facts->'strategies') STORED,
        strategy_problem text GENERATED ALWAYS AS (facts->>'strategy_problem') STORED,
        held text NOT NULL DEFAULT '{}'
    )
    """,
    "ALTER TABLE nodes ALTER COLUMN held SET STORAGE EXTERNAL",
    "CREATE INDEX nodes_ageing ON nodes (due_at) WHERE offers",
    """
    CREATE TABLE strategy_findings (
        name text PRIMARY KEY,
        problem text NOT NULL,
        told_at timestamptz NOT NULL DEFAULT now()
    )
    """,
)


def upgrade() -> None:
    create_service_tables(op)
    create_resource_table(op, "strategies")
    for statement in _STATEMENTS:
        op.execute(statement)
