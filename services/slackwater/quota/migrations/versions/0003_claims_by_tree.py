"""Claims are read tree by tree."""

from __future__ import annotations

from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    op.execute("CREATE INDEX claims_by_tree ON claims (tree, id)")


def downgrade() -> None:
    op.execute("DROP INDEX claims_by_tree")
