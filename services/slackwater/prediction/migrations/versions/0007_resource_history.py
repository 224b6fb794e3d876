"""The history of resources, and the table of kinds that declare none of their own."""

from __future__ import annotations

from alembic import op

from slackwater.store.tables import create_resource_tables, drop_resource_tables

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    create_resource_tables(op)


def downgrade() -> None:
    drop_resource_tables(op)
