"""What was answered about the custom resources of a cluster, one row per resource."""

from __future__ import annotations

from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    op.execute(
        """
        CREATE TABLE cluster_documents (
            key text PRIMARY KEY,
            document jsonb NOT NULL,
            changed_at timestamptz NOT NULL DEFAULT now()
        )
        """
    )


def downgrade() -> None:
    op.execute("DROP TABLE cluster_documents")
