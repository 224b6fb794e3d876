"""The last generations of every document of a resource kind."""

from __future__ import annotations

from alembic import op

revision = "0013"
down_revision = "0012"


def upgrade() -> None:
    op.execute(
        "CREATE TABLE resource_generation (kind text NOT NULL, name text NOT NULL, generation bigint NOT NULL,"
        " changed_at timestamptz NOT NULL, deleted boolean NOT NULL, body jsonb NOT NULL,"
        " PRIMARY KEY (kind, name, generation), CONSTRAINT resource_generation_changed_at_is_readable"
        " CHECK (changed_at BETWEEN '1970-01-01Z' AND '2200-01-01Z'))"
    )


def downgrade() -> None:
    op.execute("DROP TABLE resource_generation")
