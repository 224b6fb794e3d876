"""Stores reports, and events in the outbox, uncompressed.

Compressing the arrays of a report took twice the time of all other work of PostgreSQL on it, and saved a fifth of the
space (decision 0054).
"""

from __future__ import annotations

from alembic import op

from slackwater.store.tables import keep_events_plain

revision = "0006"
down_revision = "0005"

_COLUMNS = ("uids", "tiers", "cpu", "memory", "cpu_limits", "throttled", "cpu_pressure")


def _store(how: str) -> None:
    """Sets the storage of the table's columns; later partitions inherit it."""
    for column in _COLUMNS:
        op.execute(f"ALTER TABLE report_pods ALTER COLUMN {column} SET STORAGE {how}")


def upgrade() -> None:
    keep_events_plain(op)
    _store("EXTERNAL")


def downgrade() -> None:
    _store("EXTENDED")
    keep_events_plain(op, plain=False)
