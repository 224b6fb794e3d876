"""ColocationStrategies in effect, one row per document."""

from __future__ import annotations

from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    op.execute("CREATE TABLE strategy (name text PRIMARY KEY, told_at timestamptz NOT NULL, body jsonb NOT NULL)")


def downgrade() -> None:
    op.execute("DROP TABLE strategy")
