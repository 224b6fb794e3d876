"""The control loop: closed windows, process reports, replayed dead letters."""

from __future__ import annotations

from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Add them."""
    op.execute(
        "CREATE TABLE usage_window (event_id text PRIMARY KEY, closed_at timestamptz NOT NULL, body jsonb NOT NULL)"
    )
    op.execute("CREATE INDEX usage_window_time ON usage_window USING brin (closed_at)")
    op.execute("CREATE INDEX observation_node ON observation ((body ->> 'node'), observed_at)")
    op.execute(
        "CREATE TABLE process (instance text PRIMARY KEY, reported_at timestamptz NOT NULL, body jsonb NOT NULL)"
    )
    op.execute(
        "CREATE TABLE letter_replay (identity text, number int, position bigint NOT NULL, message_id text NOT NULL,"
        " replayed_at timestamptz NOT NULL, replayed_by text NOT NULL, PRIMARY KEY (identity, number))"
    )


def downgrade() -> None:
    """Drop them."""
    op.execute("DROP INDEX observation_node")
    for table in ("letter_replay", "process", "usage_window"):
        op.execute(f"DROP TABLE {table}")
