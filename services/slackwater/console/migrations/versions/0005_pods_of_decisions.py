"""Decisions are found by their chosen and spared pods, and by whether they were to be executed.

Decisions recorded without uids of spared pods are found by their chosen pods.
"""

from __future__ import annotations

from alembic import op

revision = "0005"
down_revision = "0004"

_CHOSEN = """
    UPDATE decision SET
        pods = ARRAY(
            SELECT DISTINCT word FROM jsonb_array_elements(body -> 'actions') AS a
            CROSS JOIN LATERAL (VALUES (a ->> 'pod_uid'), (a ->> 'pod_name')) AS w(word) WHERE word <> ''),
        carried_out = reason NOT IN ('throttle_observed_only', 'evict_observed_only')
            AND (kind NOT IN ('throttle', 'restore', 'evict') OR jsonb_array_length(body -> 'actions') > 0)
"""


def upgrade() -> None:
    """Add the columns, filled from stored decisions. One index replaces that on actions."""
    op.execute(
        "ALTER TABLE decision ADD COLUMN pods text[] NOT NULL DEFAULT '{}',"
        " ADD COLUMN spared text[] NOT NULL DEFAULT '{}', ADD COLUMN carried_out boolean NOT NULL DEFAULT true"
    )
    op.execute(_CHOSEN)
    op.execute("DROP INDEX decision_actions")
    op.execute("CREATE INDEX decision_pods ON decision USING gin (pods)")
    op.execute("CREATE INDEX decision_spared ON decision USING gin (spared)")


def downgrade() -> None:
    """Drop them."""
    op.execute("DROP INDEX decision_spared")
    op.execute("DROP INDEX decision_pods")
    op.execute("CREATE INDEX decision_actions ON decision USING gin ((body -> 'actions') jsonb_path_ops)")
    op.execute("ALTER TABLE decision DROP COLUMN carried_out, DROP COLUMN spared, DROP COLUMN pods")
