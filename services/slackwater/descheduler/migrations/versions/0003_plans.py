"""Plans that are kept: recommended, applied, and with their measured gain."""

from __future__ import annotations

from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    op.execute(
        """
        CREATE TABLE move_plans (
            id text PRIMARY KEY,
            generation bigint NOT NULL,
            state text NOT NULL,
            document jsonb NOT NULL,
            changed_at timestamptz NOT NULL DEFAULT now()
        ) WITH (fillfactor = 50)
        """
    )
    op.execute("CREATE INDEX move_plans_state ON move_plans (state)")


def downgrade() -> None:
    op.execute("DROP TABLE move_plans")
