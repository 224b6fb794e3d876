"""Trees with their generation and history, claims, and what each quota uses, never above its ceiling."""

from __future__ import annotations

from alembic import op

from slackwater.store.tables import create_service_tables

revision = "0001"
down_revision = None


def upgrade() -> None:
    create_service_tables(op)
    op.execute(
        """
        CREATE TABLE quota_trees (
            tree text PRIMARY KEY,
            generation bigint NOT NULL,
            document jsonb NOT NULL,
            changed_at timestamptz NOT NULL DEFAULT now()
        ) WITH (fillfactor = 50)
        """
    )
    for name in ("claims", "ended_claims"):
        op.execute(
            f"""
            CREATE TABLE {name} (
                id text PRIMARY KEY,
                version bigint NOT NULL DEFAULT 1,
                tree text NOT NULL,
                state text NOT NULL,
                document jsonb NOT NULL,
                changed_at timestamptz NOT NULL DEFAULT now()
            )
            """
        )
    op.execute("CREATE INDEX claims_by_tree ON claims (tree, id)")
    op.execute(
        """
        CREATE FUNCTION is_within(used jsonb, ceiling jsonb) RETURNS boolean IMMUTABLE STRICT LANGUAGE sql AS $$
            SELECT NOT EXISTS (
                SELECT 1 FROM pg_catalog.jsonb_each_text(used) AS u
                LEFT JOIN pg_catalog.jsonb_each_text(ceiling) AS c ON c.key = u.key
                WHERE u.value::bigint < 0 OR u.value::bigint > c.value::bigint
            )
        $$
        """
    )
    op.execute(
        """
        CREATE TABLE quota_uses (
            quota text PRIMARY KEY,
            tree text NOT NULL,
            used jsonb NOT NULL,
            ceiling jsonb NOT NULL,
            changed_at timestamptz NOT NULL DEFAULT now(),
            CONSTRAINT used_within_ceiling CHECK (is_within(used, ceiling))
        ) WITH (fillfactor = 70)
        """
    )
    op.execute(
        """
        CREATE TABLE tree_history (
            moment text PRIMARY KEY,
            tree text NOT NULL,
            document jsonb NOT NULL
        )
        """
    )
