"""Reports are kept, and events wait in the outbox, uncompressed.

Packing the arrays of a report took twice the time of all else that PostgreSQL does with it, and gained a fifth of the
room (decision 0054).
"""

from __future__ import annotations

from alembic import op

from slackwater.store.tables import keep_events_plain

revision = "0006"
down_revision = "0005"

_COLUMNS = ("uids", "tiers", "cpu", "memory", "cpu_limits", "throttled", "cpu_pressure")


def _store(how: str) -> None:
    """Partitions that are made later take it from the table."""
    for column in _COLUMNS:
        op.execute(f"ALTER TABLE report_pods ALTER COLUMN {column} SET STORAGE {how}")


def upgrade() -> None:
    keep_events_plain(op)
    _store("EXTERNAL")


def downgrade() -> None:
    _store("EXTENDED")
    keep_events_plain(op, plain=False)
