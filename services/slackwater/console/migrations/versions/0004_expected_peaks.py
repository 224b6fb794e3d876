"""The last predicted peak of prod, one narrow pair per node, so that the water level of a pool is a sum of rows.

New fields of offers (mid, zones, the reason, strategies) need no columns: they are in the bodies, no query searches for
them, and older bodies are read with the defaults of the view.
"""

from __future__ import annotations

from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Add it, filled from stored forecasts."""
    op.execute("ALTER TABLE node ADD COLUMN prod_peak bigint[], ADD COLUMN predicted_at timestamptz")
    op.execute(
        """
        UPDATE node SET predicted_at = last.predicted_at, prod_peak = ARRAY[
            CAST(last.body -> 'prod_peak' ->> 'cpu_milli' AS bigint),
            CAST(last.body -> 'prod_peak' ->> 'memory_bytes' AS bigint)]
        FROM (SELECT DISTINCT ON (node) node, predicted_at, body FROM forecast ORDER BY node, predicted_at DESC) AS last
        WHERE last.node = node.name
        """
    )


def downgrade() -> None:
    """Drop it; forecasts keep their peaks."""
    op.execute("ALTER TABLE node DROP COLUMN prod_peak, DROP COLUMN predicted_at")
