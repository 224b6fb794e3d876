"""The SQL of nodes: read, locked, described, saved, and those that are gone."""

from __future__ import annotations

from sqlalchemy import text

from slackwater.store.names import partition_of_sql

_TIMES = ("last_report_at", "newest_at", "closed_until", "hole_from", "hole_seen_at", "deleted_at")
_TELLABLE = ", ".join(
    f"CASE WHEN {name} NOT BETWEEN '1970-01-01' AND '9999-12-01' THEN '9999-12-01' ELSE {name} END AS {name}"
    for name in _TIMES
)
"""Replaces a time outside Python's range, which would fail the whole statement; `known_node` refuses the
replacement.
"""
_NODE = (
    "SELECT name, cpu_capacity_milli, memory_capacity_bytes, boot_epoch, previous_epoch, last_sequence, missing,"  # noqa: S608 - constants
    f" {_TELLABLE}, liveness, gaps FROM nodes"
)
"""All columns of a node except `facts`, which is long and not needed here."""
NODES = text(f"{_NODE} WHERE name = ANY(:names) ORDER BY name FOR UPDATE")
SILENT_NODES = text(
    f"{_NODE} WHERE last_report_at < :since AND liveness <> 'lost'"
    f" AND {partition_of_sql('name')} = ANY(CAST(:partitions AS int[])) ORDER BY name FOR UPDATE"
)
COUNT_BY_LIVENESS = text(
    "SELECT coalesce(CAST(liveness AS text), 'silent') AS liveness, count(*) AS nodes FROM nodes"
    " WHERE deleted_at IS NULL AND (liveness IS DISTINCT FROM 'lost' OR last_report_at >= :lost_since) GROUP BY 1"
)
GONE_NODES = text(
    f"{_NODE} WHERE deleted_at IS NULL AND (liveness = 'lost' AND last_report_at < :since"
    " OR last_report_at IS NULL AND described_at < :since)"
    f" AND {partition_of_sql('name')} = ANY(CAST(:partitions AS int[])) ORDER BY name LIMIT :limit FOR UPDATE"
)
FACTS = text("SELECT CAST(facts AS text) AS facts, described_epoch FROM nodes WHERE name = :name")
_OPEN = (
    " newest_at IS NOT NULL AND name > :after AND name <> ALL(CAST(:without AS text[])) AND (closed_until IS NULL OR ("
    " newest_at >= closed_until + make_interval(secs => :seconds)"
    " AND (hole_from IS NULL OR closed_until + make_interval(secs => :seconds) <= :until)"
    ") OR ("
    " newest_at >= closed_until AND last_report_at <= :silent_since"
    " AND closed_until + make_interval(secs => :seconds) <= :until))"
    f" AND {partition_of_sql('name')} = ANY(CAST(:partitions AS int[])) ORDER BY name LIMIT :limit FOR UPDATE"
)
OPEN_NODES = text(f"{_NODE} WHERE{_OPEN}")
OPEN_AMONG = text(f"{_NODE} WHERE name = ANY(CAST(:among AS text[])) AND{_OPEN}")
"""Uses the index on names: scanning all of 10,000 nodes takes 30 ms, and windows end continuously."""
DESCRIBE = text("""
INSERT INTO nodes (name, facts, described_epoch, described_at, cpu_capacity_milli, memory_capacity_bytes)
VALUES (:name, CAST(:facts AS jsonb), :epoch, :described_at, :cpu, :memory)
ON CONFLICT (name) DO UPDATE SET facts = excluded.facts, described_epoch = excluded.described_epoch,
    described_at = excluded.described_at, cpu_capacity_milli = excluded.cpu_capacity_milli,
    memory_capacity_bytes = excluded.memory_capacity_bytes,
    deleted_at = CASE WHEN nodes.deleted_at >= excluded.described_at THEN nodes.deleted_at END
WHERE nodes.described_at IS NULL OR nodes.described_at <= excluded.described_at
RETURNING 1
""")
SAVE_NODES = text("""
INSERT INTO nodes (name, boot_epoch, previous_epoch, last_sequence, missing, last_report_at, liveness, newest_at,
    closed_until, gaps, hole_from, hole_seen_at, deleted_at)
SELECT name, boot_epoch, previous_epoch, last_sequence, CAST(missing AS bigint[]), last_report_at, liveness, newest_at,
    closed_until, gaps, hole_from, hole_seen_at, deleted_at
FROM unnest(CAST(:name AS text[]), CAST(:boot_epoch AS text[]), CAST(:previous_epoch AS text[]),
    CAST(:last_sequence AS bigint[]), CAST(:missing AS text[]), CAST(:last_report_at AS timestamptz[]),
    CAST(:liveness AS text[]), CAST(:newest_at AS timestamptz[]), CAST(:closed_until AS timestamptz[]),
    CAST(:gaps AS bigint[]), CAST(:hole_from AS timestamptz[]), CAST(:hole_seen_at AS timestamptz[]),
    CAST(:deleted_at AS timestamptz[]))
    AS saved(name, boot_epoch, previous_epoch, last_sequence, missing, last_report_at, liveness, newest_at,
    closed_until, gaps, hole_from, hole_seen_at, deleted_at)
ON CONFLICT (name) DO UPDATE SET boot_epoch = excluded.boot_epoch, previous_epoch = excluded.previous_epoch,
    last_sequence = excluded.last_sequence, missing = excluded.missing, last_report_at = excluded.last_report_at,
    liveness = excluded.liveness, newest_at = excluded.newest_at, closed_until = excluded.closed_until,
    gaps = excluded.gaps, hole_from = excluded.hole_from, hole_seen_at = excluded.hole_seen_at,
    deleted_at = excluded.deleted_at
""")
