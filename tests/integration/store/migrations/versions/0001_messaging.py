"""The tables of the tests' own service: messaging, and something that a transaction can change."""

from __future__ import annotations

from alembic import op

from slackwater.store.tables import create_messaging_tables

revision = "0001"
down_revision = None


def upgrade() -> None:
    create_messaging_tables(op)
    op.execute("CREATE TABLE facts (name text PRIMARY KEY, value integer NOT NULL)")
