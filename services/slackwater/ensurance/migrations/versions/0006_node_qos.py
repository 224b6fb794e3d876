"""One table for every NodeQOS, `default` among them.

The two tables that it takes the place of become views, which a replica of an older version reads and writes during a
rolling change as it did the tables.
"""

from __future__ import annotations

from alembic import op

from slackwater.store.resource_table import create_resource_table

revision = "0006"
down_revision = "0005"

COLUMNS = "name, generation, document, changed_at"


def upgrade() -> None:
    create_resource_table(op, "node_qos")
    for table, condition in (("policies", "name = 'default'"), ("node_rules", "name <> 'default'")):
        op.execute(f"INSERT INTO node_qos ({COLUMNS}) SELECT {COLUMNS} FROM {table} WHERE {condition}")  # noqa: S608
        op.execute(f"DROP TABLE {table}")
        op.execute(f"CREATE VIEW {table} AS SELECT {COLUMNS} FROM node_qos WHERE {condition}")  # noqa: S608


def downgrade() -> None:
    for table, condition in (("policies", "name = 'default'"), ("node_rules", "name <> 'default'")):
        op.execute(f"DROP VIEW {table}")
        create_resource_table(op, table)
        op.execute(f"INSERT INTO {table} ({COLUMNS}) SELECT {COLUMNS} FROM node_qos WHERE {condition}")  # noqa: S608
    op.execute("ALTER TABLE policies ALTER COLUMN document SET NOT NULL")
    op.execute("DROP TABLE node_qos")
