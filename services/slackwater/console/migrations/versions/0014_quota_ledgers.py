"""Ledgers of quota trees: the newest is the present of a tree, the others are its history."""

from __future__ import annotations

from alembic import op

revision = "0014"
down_revision = "0013"


def upgrade() -> None:
    op.execute(
        "CREATE TABLE quota_ledger (tree text NOT NULL, at timestamptz NOT NULL, accounted_at timestamptz NOT NULL,"
        " body jsonb NOT NULL, PRIMARY KEY (tree, at), CONSTRAINT quota_ledger_times_are_readable"
        " CHECK (at BETWEEN '1970-01-01Z' AND '2200-01-01Z' AND accounted_at BETWEEN '1970-01-01Z' AND '2200-01-01Z'))"
    )


def downgrade() -> None:
    op.execute("DROP TABLE quota_ledger")
