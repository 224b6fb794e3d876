"""Adds the values of the last published prediction, and the pool of a node.

Earlier snapshots have another version: the windows since yesterday are folded again.
"""

from __future__ import annotations

from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    op.execute("ALTER TABLE nodes ADD COLUMN pool text NOT NULL DEFAULT 'default'")
    op.execute(
        "ALTER TABLE published_windows"
        " ADD COLUMN published_at double precision NOT NULL DEFAULT 0,"
        " ADD COLUMN policy text NOT NULL DEFAULT '',"
        " ADD COLUMN generation bigint NOT NULL DEFAULT 0,"
        " ADD COLUMN edition integer NOT NULL DEFAULT 0,"
        " ADD COLUMN amounts bigint[] NOT NULL DEFAULT '{}'"
    )


def downgrade() -> None:
    for column in ("published_at", "policy", "generation", "edition", "amounts"):
        op.execute(f"ALTER TABLE published_windows DROP COLUMN {column}")
    op.execute("ALTER TABLE nodes DROP COLUMN pool")
