"""Adds the host applications of a report as JSON; null where there are none."""

from __future__ import annotations

from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    op.execute("ALTER TABLE node_usage ADD COLUMN host_apps text")


def downgrade() -> None:
    op.execute("ALTER TABLE node_usage DROP COLUMN host_apps")
