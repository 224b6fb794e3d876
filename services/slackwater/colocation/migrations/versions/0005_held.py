"""Moves pods and peaks out of the state's JSONB into a text column, because no statement reads them.

As part of the JSONB they were parsed, compressed and decompressed again with every window and every peak: 0.59 ms of
PostgreSQL's CPU for a node of 20 held pods, 0.10 ms with all of it as plain text (decision 0053). The document column
is renamed, so that a replica of an earlier version does not read it as the whole state and offer what the missing pods
hold.
"""

from __future__ import annotations

from alembic import op

revision = "0005"
down_revision = "0004"

_UPGRADE = (
    "ALTER TABLE nodes ADD COLUMN held text NOT NULL DEFAULT '{}'",
    "ALTER TABLE nodes ALTER COLUMN held SET STORAGE EXTERNAL",
    """
    UPDATE nodes SET state = state - 'pods' - 'peaks', held = CAST(jsonb_build_object(
        'pods', coalesce(state->'pods', '[]'), 'peaks', coalesce(state->'peaks', '{}')) AS text)
    """,
    "ALTER TABLE nodes RENAME COLUMN state TO facts",
)


def upgrade() -> None:
    for statement in _UPGRADE:
        op.execute(statement)


def downgrade() -> None:
    op.execute("ALTER TABLE nodes RENAME COLUMN facts TO state")
    op.execute("UPDATE nodes SET state = state || CAST(held AS jsonb)")
    op.execute("ALTER TABLE nodes DROP COLUMN held")
