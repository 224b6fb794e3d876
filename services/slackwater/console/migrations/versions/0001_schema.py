"""The read model: one row per node, history by time, decisions with their outcomes, documents, ledgers and moves.

Bodies are the read model's own shapes as JSON; other columns are only those used for search and order. The pods of a
node's last report are text, because every report writes them and only a query parses them: 0.17 ms of PostgreSQL's CPU
for a report of 30 pods instead of 0.47 ms as JSON.
"""

from __future__ import annotations

from alembic import op

from slackwater.store.tables import create_messaging_tables, create_quarantine_table

revision = "0001"
down_revision = None

_TABLES = (
    """
    CREATE TABLE node (
        name text PRIMARY KEY,
        facts jsonb, boot_epoch text, described_at timestamptz,
        liveness text, liveness_changed_at timestamptz,
        usage jsonb, sampled_at timestamptz,
        offer jsonb, offered_at timestamptz,
        amounts bigint[],
        prod_peak bigint[], predicted_at timestamptz,
        conditions jsonb, conditions_told_at timestamptz,
        reported_pods text
    ) WITH (fillfactor = 70)
    """,
    "ALTER TABLE node ALTER COLUMN reported_pods SET STORAGE EXTERNAL",
    (
        "CREATE TABLE usage_point (event_id text PRIMARY KEY, node text NOT NULL, sampled_at timestamptz NOT NULL,"
        " body jsonb NOT NULL)"
    ),
    "CREATE INDEX usage_point_node ON usage_point (node, sampled_at)",
    "CREATE INDEX usage_point_time ON usage_point USING brin (sampled_at) WITH (pages_per_range = 16)",
    "CREATE TABLE usage_window (event_id text PRIMARY KEY, closed_at timestamptz NOT NULL, body jsonb NOT NULL)",
    "CREATE INDEX usage_window_time ON usage_window USING brin (closed_at)",
    (
        "CREATE TABLE fleet_level (at timestamptz PRIMARY KEY, nodes int NOT NULL, silent int NOT NULL,"
        " amounts bigint[] NOT NULL)"
    ),
    (
        "CREATE TABLE forecast (event_id text PRIMARY KEY, node text NOT NULL, predicted_at timestamptz NOT NULL,"
        " body jsonb NOT NULL)"
    ),
    "CREATE INDEX forecast_node ON forecast (node, predicted_at)",
    (
        "CREATE TABLE offer (event_id text PRIMARY KEY, node text NOT NULL, offered_at timestamptz NOT NULL,"
        " generation bigint NOT NULL, body jsonb NOT NULL)"
    ),
    "CREATE INDEX offer_node ON offer (node, offered_at)",
    """
    CREATE TABLE decision (
        id text PRIMARY KEY,
        node text NOT NULL, kind text NOT NULL, subject text NOT NULL, reason text NOT NULL,
        decided_at timestamptz NOT NULL,
        body jsonb NOT NULL,
        pods text[] NOT NULL DEFAULT '{}', spared text[] NOT NULL DEFAULT '{}',
        carried_out boolean NOT NULL DEFAULT true
    )
    """,
    "CREATE INDEX decision_time ON decision (decided_at, id)",
    "CREATE INDEX decision_node ON decision (node, subject, decided_at, id)",
    "CREATE INDEX decision_pods ON decision USING gin (pods)",
    "CREATE INDEX decision_spared ON decision USING gin (spared)",
    "CREATE TABLE effect (decision_id text PRIMARY KEY, measured_at timestamptz NOT NULL, body jsonb NOT NULL)",
    "CREATE INDEX effect_time ON effect (measured_at)",
    (
        "CREATE TABLE observation (event_id text PRIMARY KEY, observed_at timestamptz NOT NULL,"
        " decision_ids text[] NOT NULL, body jsonb NOT NULL)"
    ),
    "CREATE INDEX observation_decisions ON observation USING gin (decision_ids)",
    "CREATE INDEX observation_node ON observation ((body ->> 'node'), observed_at)",
    (
        "CREATE TABLE eviction (node text NOT NULL, id text NOT NULL, decision_id text NOT NULL,"
        " completed_at timestamptz NOT NULL, body jsonb NOT NULL, PRIMARY KEY (node, id))"
    ),
    "CREATE INDEX eviction_decision ON eviction (decision_id)",
    "CREATE TABLE process (instance text PRIMARY KEY, reported_at timestamptz NOT NULL, body jsonb NOT NULL)",
    (
        "CREATE TABLE letter_replay (identity text, number int, position bigint NOT NULL, message_id text NOT NULL,"
        " replayed_at timestamptz NOT NULL, replayed_by text NOT NULL, PRIMARY KEY (identity, number))"
    ),
    "CREATE TABLE strategy (name text PRIMARY KEY, told_at timestamptz NOT NULL, body jsonb NOT NULL)",
    (
        "CREATE TABLE event (id text PRIMARY KEY, type text NOT NULL, source text NOT NULL, node text NOT NULL,"
        " time timestamptz NOT NULL, causedby text, trace text, body jsonb NOT NULL)"
    ),
    "CREATE INDEX event_type ON event (type, time)",
    "CREATE INDEX event_node ON event (node, time)",
    # Few events have a trace, and it is searched from a decision.
    "CREATE INDEX event_trace ON event (trace) WHERE trace IS NOT NULL",
    (
        "CREATE TABLE resource_generation (kind text NOT NULL, name text NOT NULL, generation bigint NOT NULL,"
        " changed_at timestamptz NOT NULL, deleted boolean NOT NULL, body jsonb NOT NULL,"
        " PRIMARY KEY (kind, name, generation))"
    ),
    # The newest ledger is the present of a tree, the others are its history.
    (
        "CREATE TABLE quota_ledger (tree text NOT NULL, at timestamptz NOT NULL, accounted_at timestamptz NOT NULL,"
        " body jsonb NOT NULL, PRIMARY KEY (tree, at), CONSTRAINT quota_ledger_times_are_readable"
        " CHECK (at BETWEEN '1970-01-01Z' AND '2200-01-01Z' AND accounted_at BETWEEN '1970-01-01Z' AND '2200-01-01Z'))"
    ),
    (
        "CREATE TABLE move (job text PRIMARY KEY, changed_at timestamptz NOT NULL, step text NOT NULL,"
        " body jsonb NOT NULL) WITH (fillfactor = 70)"
    ),
)
READABLE_TIMES = {
    "node": (
        *("described_at", "liveness_changed_at", "sampled_at"),
        *("offered_at", "predicted_at", "conditions_told_at"),
    ),
    "usage_point": ("sampled_at",),
    "usage_window": ("closed_at",),
    "fleet_level": ("at",),
    "forecast": ("predicted_at",),
    "offer": ("offered_at",),
    "decision": ("decided_at",),
    "effect": ("measured_at",),
    "observation": ("observed_at",),
    "eviction": ("completed_at",),
    "process": ("reported_at",),
    "letter_replay": ("replayed_at",),
    "strategy": ("told_at",),
    "event": ("time",),
    "resource_generation": ("changed_at",),
    "move": ("changed_at",),
}
"""Columns that hold no time beyond the bounds of events: one such row would make every query of its table fail."""


def upgrade() -> None:
    create_messaging_tables(op)
    create_quarantine_table(op)
    for statement in _TABLES:
        op.execute(statement)
    for table, columns in READABLE_TIMES.items():
        for column in columns:
            op.execute(
                f"ALTER TABLE {table} ADD CONSTRAINT {table}_{column}_is_readable"
                f" CHECK ({column} BETWEEN '1970-01-01Z' AND '2200-01-01Z')"
            )
