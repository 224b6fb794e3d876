"""Adds `pods.present`: a pod in its node's newest report was last seen with the node, so only changes are written.

`last_seen_at` is exact for pods that are gone; for present pods the node's `last_report_at` is newer.
"""

from __future__ import annotations

from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    op.execute("ALTER TABLE pods ADD COLUMN present boolean NOT NULL DEFAULT true")
    op.execute("CREATE INDEX pods_node ON pods (node)")
    op.execute("CREATE INDEX pods_gone ON pods (last_seen_at) WHERE NOT present AND liveness <> 'lost'")


def downgrade() -> None:
    op.execute("DROP INDEX pods_gone")
    op.execute("DROP INDEX pods_node")
    op.execute("ALTER TABLE pods DROP COLUMN present")
