"""The last cycle of each profile, and the moves of the last day by pod."""

from __future__ import annotations

from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    op.execute(
        """
        CREATE TABLE profile_cycles (
            profile text PRIMARY KEY,
            generation bigint NOT NULL,
            document jsonb NOT NULL,
            changed_at timestamptz NOT NULL DEFAULT now()
        ) WITH (fillfactor = 50)
        """
    )
    op.execute(
        """
        CREATE TABLE workload_moves (
            pod_uid text PRIMARY KEY,
            workload text NOT NULL,
            moved_at_s double precision NOT NULL,
            target text NOT NULL,
            until_s double precision NOT NULL
        )
        """
    )


def downgrade() -> None:
    op.execute("DROP TABLE workload_moves")
    op.execute("DROP TABLE profile_cycles")
