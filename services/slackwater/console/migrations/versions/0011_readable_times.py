"""No column holds a time beyond the bounds of events.

Such a time can make every query that reads its table fail. Rows that hold one already are deleted, because each is a
projection of an event that the bounds refuse today; of a node only the column is emptied. The check is added without a
scan and validated without blocking writers, because a replica of the version before may be writing.
"""

from __future__ import annotations

from alembic import op

revision = "0011"
down_revision = "0010"

OF_ROWS = {
    "usage_point": ("sampled_at",),
    "forecast": ("predicted_at",),
    "offer": ("offered_at",),
    "decision": ("decided_at",),
    "effect": ("measured_at",),
    "observation": ("observed_at",),
    "eviction": ("completed_at",),
    "fleet_level": ("at",),
    "usage_window": ("closed_at",),
    "process": ("reported_at",),
    "letter_replay": ("replayed_at",),
    "strategy": ("told_at",),
}
OF_NODES = (
    "described_at",
    "liveness_changed_at",
    "sampled_at",
    "offered_at",
    "predicted_at",
    "conditions_told_at",
)
_READABLE = "BETWEEN '1970-01-01Z' AND '2200-01-01Z'"


def upgrade() -> None:
    for table, columns in OF_ROWS.items():
        for column in columns:
            _bound(table, column, f"DELETE FROM {table} WHERE NOT {column} {_READABLE}")  # noqa: S608 - constants
    for column in OF_NODES:
        _bound("node", column, f"UPDATE node SET {column} = NULL WHERE NOT {column} {_READABLE}")  # noqa: S608 - constants


def downgrade() -> None:
    for table, columns in {**OF_ROWS, "node": OF_NODES}.items():
        for column in columns:
            op.execute(f"ALTER TABLE {table} DROP CONSTRAINT {_name(table, column)}")


def _bound(table: str, column: str, mend: str) -> None:
    op.execute(f"ALTER TABLE {table} ADD CONSTRAINT {_name(table, column)} CHECK ({column} {_READABLE}) NOT VALID")
    op.execute(mend)
    op.execute(f"ALTER TABLE {table} VALIDATE CONSTRAINT {_name(table, column)}")


def _name(table: str, column: str) -> str:
    return f"{table}_{column}_is_readable"
