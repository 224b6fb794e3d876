"""ColocationStrategy documents, published findings on invalid ones, and the strategy of each node.

A deleted document leaves its row with the generation it had, so that a generation never means two things.
"""

from __future__ import annotations

from alembic import op

from slackwater.store.resource_table import create_resource_table

revision = "0004"
down_revision = "0003"

_STATEMENTS = (
    """
    CREATE TABLE strategy_findings (
        name text PRIMARY KEY,
        problem text NOT NULL,
        told_at timestamptz NOT NULL DEFAULT now()
    )
    """,
    "ALTER TABLE nodes ADD COLUMN strategies jsonb GENERATED ALWAYS AS (state->'strategies') STORED",
    "ALTER TABLE nodes ADD COLUMN strategy_problem text GENERATED ALWAYS AS (state->>'strategy_problem') STORED",
)


def upgrade() -> None:
    create_resource_table(op, "strategies")
    for statement in _STATEMENTS:
        op.execute(statement)


def downgrade() -> None:
    op.execute("ALTER TABLE nodes DROP COLUMN strategy_problem")
    op.execute("ALTER TABLE nodes DROP COLUMN strategies")
    op.execute("DROP TABLE strategy_findings")
    op.execute("DROP TABLE strategies")
