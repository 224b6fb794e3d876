"""Adds the quarantine of rows and events that cannot be read, stored or computed; an operator releases them."""

from __future__ import annotations

from alembic import op

from slackwater.store.tables import create_quarantine_table, drop_quarantine_table

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    create_quarantine_table(op)


def downgrade() -> None:
    drop_quarantine_table(op)
