"""The last predicted peak of prod, one narrow pair per node: the water level of a pool is then a sum of rows.

What offers have learnt to tell (mid, zones, the reason, strategies) needs no columns: it is in their bodies, nothing
searches for it, and bodies from before are read with the defaults of the view.
"""

from __future__ import annotations

from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Add it, with what is known already."""
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
    """Forget it; forecasts keep theirs."""
    op.execute("ALTER TABLE node DROP COLUMN prod_peak, DROP COLUMN predicted_at")
