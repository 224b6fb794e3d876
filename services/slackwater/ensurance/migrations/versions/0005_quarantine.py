"""What cannot be read, stored or computed is set aside here, and released by an operator."""

from __future__ import annotations

from alembic import op

from slackwater.store.tables import create_quarantine_table, drop_quarantine_table

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    create_quarantine_table(op)


def downgrade() -> None:
    drop_quarantine_table(op)
