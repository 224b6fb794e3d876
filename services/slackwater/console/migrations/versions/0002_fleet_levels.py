"""Stored levels of the fleet, one narrow row of sums per node; decisions can be searched by pod.

Reports no longer need their own sums.
"""

from __future__ import annotations

from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Add them. A node's sums are written with its next report."""
    op.execute("ALTER TABLE node ADD COLUMN amounts bigint[]")
    op.execute("ALTER TABLE usage_point DROP COLUMN amounts")
    op.execute(
        "CREATE TABLE fleet_level"
        " (at timestamptz PRIMARY KEY, nodes int NOT NULL, silent int NOT NULL, amounts bigint[] NOT NULL)"
    )
    op.execute("CREATE INDEX decision_actions ON decision USING gin ((body -> 'actions') jsonb_path_ops)")
    op.execute("CREATE INDEX effect_time ON effect (measured_at)")


def downgrade() -> None:
    """Remove them. Old reports lose their sums, which only charts used."""
    op.execute("DROP INDEX effect_time")
    op.execute("DROP INDEX decision_actions")
    op.execute("DROP TABLE fleet_level")
    op.execute("ALTER TABLE usage_point ADD COLUMN amounts bigint[] NOT NULL DEFAULT '{}'")
    op.execute("ALTER TABLE node DROP COLUMN amounts")
