"""Jobs of migration: the newest state of each."""

from __future__ import annotations

from alembic import op

revision = "0015"
down_revision = "0014"


def upgrade() -> None:
    op.execute(
        "CREATE TABLE move (job text PRIMARY KEY, changed_at timestamptz NOT NULL, step text NOT NULL,"
        " body jsonb NOT NULL, CONSTRAINT move_changed_at_is_readable"
        " CHECK (changed_at BETWEEN '1970-01-01Z' AND '2200-01-01Z')) WITH (fillfactor = 70)"
    )


def downgrade() -> None:
    op.execute("DROP TABLE move")
