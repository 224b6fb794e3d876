"""NodeQOS for some nodes, PodQOS, AvoidanceAction and Autonomy, and how pools stand that may evict."""

from __future__ import annotations

from alembic import op

from slackwater.store.resource_table import create_resource_table

revision = "0003"
down_revision = "0002"

TABLES = ("node_rules", "pod_qos", "avoidance_actions", "autonomies")


def upgrade() -> None:
    for table in TABLES:
        create_resource_table(op, table)
    op.execute(
        """
        CREATE TABLE pool_autonomy (
            pool text PRIMARY KEY,
            version bigint NOT NULL,
            document jsonb NOT NULL,
            changed_at timestamptz NOT NULL DEFAULT now()
        )
        """
    )


def downgrade() -> None:
    op.execute("DROP TABLE pool_autonomy")
    for table in TABLES:
        op.execute(f"DROP TABLE {table}")
