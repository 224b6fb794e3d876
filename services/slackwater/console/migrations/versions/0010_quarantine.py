"""Rows that cannot be read, stored or computed are quarantined here, until an operator releases them."""

from __future__ import annotations

from alembic import op

from slackwater.store.tables import create_quarantine_table, drop_quarantine_table

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    create_quarantine_table(op)


def downgrade() -> None:
    drop_quarantine_table(op)
