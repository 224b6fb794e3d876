"""Jobs, reservations and what is asked and answered about them; one row holds the generation of arbitration."""

from __future__ import annotations

from alembic import op

from slackwater.store.tables import create_service_tables

revision = "0001"
down_revision = None

TABLES = ("jobs", "kept_reservations", "asks")


def upgrade() -> None:
    create_service_tables(op)
    op.execute(
        """
        CREATE TABLE arbitration (
            name text PRIMARY KEY,
            generation bigint NOT NULL,
            document jsonb NOT NULL,
            changed_at timestamptz NOT NULL DEFAULT now()
        ) WITH (fillfactor = 50)
        """
    )
    for name in TABLES:
        op.execute(
            f"""
            CREATE TABLE {name} (
                name text PRIMARY KEY,
                document jsonb NOT NULL,
                changed_at timestamptz NOT NULL DEFAULT now()
            )
            """
        )
    op.execute(
        """
        CREATE TABLE answers (
            name text PRIMARY KEY,
            document jsonb NOT NULL,
            at_s double precision NOT NULL
        )
        """
    )
