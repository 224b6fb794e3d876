"""Listed events: one table for every type with LISTED (decision 0079).

`trace` is indexed only where there is one, because few events have one and it is searched from a decision.
"""

from __future__ import annotations

from alembic import op

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    op.execute(
        "CREATE TABLE event (id text PRIMARY KEY, type text NOT NULL, source text NOT NULL, node text NOT NULL,"
        " time timestamptz NOT NULL, causedby text, trace text, body jsonb NOT NULL,"
        " CONSTRAINT event_time_is_readable CHECK (time BETWEEN '1970-01-01Z' AND '2200-01-01Z'))"
    )
    op.execute("CREATE INDEX event_type ON event (type, time)")
    op.execute("CREATE INDEX event_node ON event (node, time)")
    op.execute("CREATE INDEX event_trace ON event (trace) WHERE trace IS NOT NULL")


def downgrade() -> None:
    op.execute("DROP TABLE event")
