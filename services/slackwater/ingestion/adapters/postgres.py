"""The ledger on PostgreSQL. Rows are written by COPY; history has one partition per day."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

import asyncpg
from sqlalchemy import RowMapping, text
from sqlalchemy.exc import DBAPIError

from slackwater.events.state_quarantined import QuarantineReason
from slackwater.ingestion.adapters import binary
from slackwater.ingestion.adapters import node_statements as nodes_sql
from slackwater.ingestion.adapters.pod_presence import Memory, see
from slackwater.ingestion.adapters.rows import (
    FACTS,
    NODE_USAGE,
    history_rows,
    known_node,
    node_columns,
    node_usage,
    pod_columns,
    pod_of,
)
from slackwater.ingestion.domain.columns import HistoryColumns
from slackwater.ingestion.domain.reports import HistoryRow, KnownNode
from slackwater.ingestion.domain.validation import Refusal
from slackwater.ingestion.domain.windowing import Agent, Before
from slackwater.ingestion.ports import Ledgers, PodPresence
from slackwater.model.errors import InvalidInput
from slackwater.model.identifiers import ALL_PARTITIONS
from slackwater.model.nodes import Liveness, NodeFacts
from slackwater.model.pods import Pod
from slackwater.store.copy_rows import copy_binary, copy_rows
from slackwater.store.names import lock_key, partition_of_sql
from slackwater.store.port import UnitOfWork
from slackwater.store.quarantine import Quarantine
from slackwater.store.quarantine_memory import unstored

_PARTITIONED = {"node_usage": "", "report_pods": " WITH (toast_tuple_target = 8160)"}
"""Storage options of the partitions. A report of 30 pods takes 6 KB, and compressing it costs more than storing it."""
_UNSEARCHED = {
    "node_usage": ("cpu", "memory", "system_cpu", "system_memory"),
    "report_pods": ("uids", "tiers", "cpu", "memory", "cpu_limits", "throttled", "cpu_pressure"),
}
"""Columns that no statement filters on, so they need no planner statistics. Collecting these took half of autovacuum's
CPU time (3 of 5.8 s in 130 s at 310 reports/s), up to a second of a core at a time.
"""

_SEEN = "CASE WHEN p.present THEN greatest(p.last_seen_at, n.last_report_at) ELSE p.last_seen_at END"
"""A pod that is present was last seen with the last report of its node (adapters/presence)."""
_LIVENESS = "CASE WHEN p.present THEN coalesce(n.liveness, p.liveness) ELSE p.liveness END"
"""A pod that is present has the liveness of its node."""
_PODS = text(
    f"SELECT p.uid, p.node, {_SEEN} AS last_seen_at, {_LIVENESS} AS liveness"  # noqa: S608 - constants
    " FROM pods p LEFT JOIN nodes n ON n.name = p.node ORDER BY p.uid"
)
_GONE_PODS = text(
    "SELECT uid, node, last_seen_at, liveness FROM pods"  # noqa: S608 - constants
    " WHERE NOT present AND last_seen_at < :since AND liveness <> 'lost'"
    f" AND {partition_of_sql('node')} = ANY(CAST(:partitions AS int[])) ORDER BY uid FOR UPDATE"
)
_SAVE_POD = text("UPDATE pods SET liveness = :liveness WHERE uid = :uid")
_COUNT_REFUSAL = text("""
INSERT INTO refusals (node, reason, count, last_at) VALUES (:node, :reason, :count, :at)
ON CONFLICT (node, reason) DO UPDATE SET count = refusals.count + excluded.count, last_at = excluded.last_at
""")
_OF_EACH_NODE = """
SELECT found.* FROM unnest(CAST(:nodes AS text[]), CAST(:since AS timestamptz[]), CAST(:until AS timestamptz[]))
    AS wanted(node, since, until) CROSS JOIN LATERAL (
    SELECT * FROM {table} WHERE node = wanted.node AND midpoint_at >= wanted.since AND midpoint_at < wanted.until
    OFFSET 0
) found ORDER BY found.node, found.midpoint_at, found.{last}
"""
"""One index scan per node (LATERAL). The planner has no statistics on a new partition and would scan all of it."""
_REPORTS = text(_OF_EACH_NODE.format(table="node_usage", last="sequence"))
_REPORTED_PODS = text(_OF_EACH_NODE.format(table="pod_usage", last="uid"))
_BEFORE = text("""
SELECT wanted.node, wanted.boot_epoch, coalesce(around.sequence, newest.sequence) AS sequence, (
    SELECT count(*) FROM node_usage WHERE node = wanted.node AND boot_epoch = wanted.boot_epoch AND late
        AND midpoint_at >= least(coalesce(newest.midpoint_at, :oldest), wanted.since) AND midpoint_at < wanted.until
        AND sequence > coalesce(around.sequence, newest.sequence, 0) AND sequence < wanted.sequence) AS late
FROM unnest(CAST(:nodes AS text[]), CAST(:epochs AS text[]), CAST(:sequences AS bigint[]), CAST(:at AS timestamptz[]),
        CAST(:since AS timestamptz[]), CAST(:until AS timestamptz[]))
    AS wanted(node, boot_epoch, sequence, at, since, until) LEFT JOIN LATERAL (
    SELECT sequence, midpoint_at FROM node_usage WHERE node = wanted.node AND midpoint_at >= :oldest
        AND midpoint_at < wanted.at AND boot_epoch = wanted.boot_epoch AND NOT late AND sequence < wanted.sequence
    ORDER BY node_usage.midpoint_at DESC LIMIT 1
) newest ON true LEFT JOIN LATERAL (
    SELECT max(node_usage.sequence) AS sequence FROM node_usage WHERE node = wanted.node
        AND midpoint_at >= wanted.since AND midpoint_at < wanted.until AND boot_epoch = wanted.boot_epoch AND NOT late
        AND node_usage.sequence < wanted.sequence
) around ON true
""")
"""The newest report scans the index backwards, because it is close to the given one. It is not the one with the highest
sequence where the agent's clock was set: that is looked for within CLOCK_SET of the given one."""
CLOCK_SET = timedelta(hours=1)
_POD_COLUMNS = text("""
SELECT found.* FROM unnest(CAST(:nodes AS text[]), CAST(:since AS timestamptz[]), CAST(:until AS timestamptz[]))
    AS wanted(node, since, until) CROSS JOIN LATERAL (
    SELECT node, boot_epoch, sequence, uids, array_send(cpu) AS cpu, array_send(memory) AS memory FROM report_pods
    WHERE node = wanted.node AND midpoint_at >= wanted.since AND midpoint_at < wanted.until
    OFFSET 0
) found
""")
"""One row for each report that has pods; arrays arrive in their wire format (`array_send`)."""
_DESCRIPTIONS = text("SELECT uid, CAST(pod AS text) AS pod FROM pods WHERE uid = ANY(:uids)")
_PARTITIONS = text("""
SELECT child.relname AS name FROM pg_inherits
JOIN pg_class child ON child.oid = inhrelid JOIN pg_class parent ON parent.oid = inhparent
WHERE parent.relname = :parent AND parent.relnamespace = to_regnamespace(current_schema())
""")


BROKEN = (ValueError, TypeError, LookupError, OverflowError, RecursionError)
"""Errors that an unreadable row raises."""


@contextmanager
def _storable() -> Iterator[None]:
    """Raises InvalidInput for a value that PostgreSQL cannot store: the report is at fault, and the database is
    available.
    """
    try:
        yield
    except (asyncpg.DataError, UnicodeEncodeError, OverflowError) as error:
        raise InvalidInput(
            f"report: cannot be stored: {error}; correct the value in the agent", field="report"
        ) from error
    except DBAPIError as error:
        cause = error.orig.__cause__ if error.orig else None
        if not isinstance(cause, asyncpg.DataError | ValueError):
            raise
        raise InvalidInput(
            f"report: cannot be stored: {error.orig}; correct the value in the agent", field="report"
        ) from error


class PostgresUsageLedger:
    """Implements slackwater.ingestion.ports.UsageLedger on the connection of a unit of work."""

    def __init__(self, unit: UnitOfWork, memory: Memory, quarantine: Quarantine) -> None:
        self._quarantine = quarantine
        self._unit = unit
        self._connection = unit.connection
        self._memory = memory
        self._loaded: dict[str, KnownNode] = {}

    @classmethod
    def remembering(cls, quarantine: Quarantine | None = None) -> Ledgers:
        """Returns ledgers that share one cache of the pods already written, so that unchanged pods are not written
        again.
        """
        memory, aside = Memory(), quarantine or unstored()
        return lambda unit: cls(unit, memory, aside)

    async def nodes(self, names: Sequence[str]) -> Mapping[str, KnownNode]:
        rows = await self._connection.execute(nodes_sql.NODES, {"names": list(names)})
        nodes = {node.name: node for node in self._known(rows.mappings())}
        self._loaded.update(nodes)
        return nodes

    def _known(self, rows: Iterable[RowMapping]) -> list[KnownNode]:
        """Returns the nodes whose rows can be read. Unreadable rows go to the quarantine."""
        nodes = []
        for row in rows:
            if self._quarantine.holds_node(row["name"]):
                continue
            try:
                nodes.append(known_node(row))
            except BROKEN as error:
                unreadable, name = QuarantineReason.UNREADABLE, row["name"]
                self._quarantine.note("nodes", name, error, reason=unreadable, node=name, document=dict(row))
        return nodes

    def _note(self, table: str, row: str, error: Exception, document: object = "") -> None:
        self._quarantine.note(table, row, error, reason=QuarantineReason.UNREADABLE, document=document)

    async def describe(self, facts: NodeFacts, boot_epoch: str, described_at: datetime) -> bool:
        self._unit.concerns(facts.name)
        with _storable():
            done = await self._connection.execute(
                nodes_sql.DESCRIBE,
                {
                    "name": facts.name,
                    "facts": FACTS.dump_json(facts).decode(),
                    "epoch": boot_epoch,
                    "described_at": described_at,
                    "cpu": facts.capacity.cpu_milli,
                    "memory": facts.capacity.memory_bytes,
                },
            )
        return done.first() is not None

    async def append(self, history: HistoryColumns) -> None:
        self._unit.concerns(*(row.report.node for row in history.rows))
        with _storable():
            await copy_rows(self._connection, "node_usage", NODE_USAGE, map(node_usage, history.rows))
            pods = binary.report_pods(history, self._memory.identities)
            await copy_binary(self._connection, "report_pods", binary.COLUMNS, pods)
            await see(self._connection, history, self._loaded, self._memory)

    async def save(self, nodes: Sequence[KnownNode]) -> None:
        if nodes:
            self._unit.concerns(*(node.name for node in nodes))
            await self._connection.execute(
                nodes_sql.SAVE_NODES, node_columns(sorted(nodes, key=lambda node: node.name))
            )

    async def count_refusals(self, counts: Mapping[tuple[str, Refusal], int], at: datetime) -> None:
        await self._connection.execute(
            _COUNT_REFUSAL,
            [
                {"node": node, "reason": reason, "count": count, "at": at}
                for (node, reason), count in sorted(counts.items())
            ],
        )

    async def refusals(self) -> Mapping[tuple[str, Refusal], int]:
        """Returns all refusal counts."""
        rows = await self._connection.execute(text("SELECT node, reason, count FROM refusals"))
        return {(row[0], Refusal(row[1])): row[2] for row in rows}

    async def silent_nodes(self, since: datetime, partitions: Collection[int] = ALL_PARTITIONS) -> Sequence[KnownNode]:
        rows = await self._connection.execute(nodes_sql.SILENT_NODES, {"since": since, "partitions": list(partitions)})
        return self._known(rows.mappings())

    async def count_by_liveness(self, lost_since: datetime) -> Mapping[str, int]:
        rows = await self._connection.execute(nodes_sql.COUNT_BY_LIVENESS, {"lost_since": lost_since})
        return {row.liveness: row.nodes for row in rows}

    async def gone_nodes(
        self, since: datetime, limit: int, partitions: Collection[int] = ALL_PARTITIONS
    ) -> Sequence[KnownNode]:
        rows = await self._connection.execute(
            nodes_sql.GONE_NODES, {"since": since, "limit": limit, "partitions": list(partitions)}
        )
        return self._known(rows.mappings())

    async def description(self, node: str) -> tuple[NodeFacts, str] | None:
        row = (await self._connection.execute(nodes_sql.FACTS, {"name": node})).first()
        if row is None or row.facts is None:
            return None
        return FACTS.validate_json(row.facts), row.described_epoch

    async def gone_pods(self, since: datetime, partitions: Collection[int] = ALL_PARTITIONS) -> Sequence[PodPresence]:
        rows = await self._connection.execute(_GONE_PODS, {"since": since, "partitions": list(partitions)})
        pods = []
        for row in rows.mappings():
            try:
                pods.append(_presence(row))
            except BROKEN as error:
                self._note("pods", row["uid"], error, row["liveness"])
        return pods

    async def pods(self) -> Sequence[PodPresence]:
        """Returns the whole inventory of pods."""
        rows = await self._connection.execute(_PODS)
        return [_presence(row) for row in rows.mappings()]

    async def save_pods(self, pods: Sequence[PodPresence]) -> None:
        if pods:
            self._unit.concerns(*(pod.node for pod in pods))
            values = [{"uid": pod.uid, "liveness": pod.liveness} for pod in pods]
            await self._connection.execute(_SAVE_POD, values)

    async def open_nodes(
        self,
        until: datetime,
        silent_since: datetime,
        seconds: int,
        after: str,
        limit: int,
        partitions: Collection[int] = ALL_PARTITIONS,
        among: Sequence[str] | None = None,
    ) -> Sequence[KnownNode]:
        parameters: dict[str, Any] = {"until": until, "silent_since": silent_since, "seconds": float(seconds)}
        parameters |= {"after": after, "limit": limit, "partitions": list(partitions)}
        parameters["without"] = list(self._quarantine.nodes)
        if among is None:
            rows = await self._connection.execute(nodes_sql.OPEN_NODES, parameters)
        else:
            rows = await self._connection.execute(nodes_sql.OPEN_AMONG, parameters | {"among": list(among)})
        return self._known(rows.mappings())

    async def history(self, nodes: Sequence[str], since: datetime, until: datetime) -> Sequence[HistoryRow]:
        spans = _columns_of_spans(dict.fromkeys(nodes, (since, until)))
        reports = (await self._connection.execute(_REPORTS, spans)).mappings().all()
        pods = (await self._connection.execute(_REPORTED_PODS, spans)).mappings().all()
        return history_rows(reports, pods, await self._described({row["uid"] for row in pods}))

    async def columns_within(self, spans: Mapping[str, tuple[datetime, datetime]]) -> HistoryColumns:
        parameters = _columns_of_spans(spans)
        reports = (await self._connection.execute(_REPORTS, parameters)).mappings().all()
        pod_rows = (await self._connection.execute(_POD_COLUMNS, parameters)).all()
        seen = {uid: pod for node in spans for uid, pod in self._memory.pods_of(node)}
        uids = {uid for row in pod_rows for uid in row.uids}
        described = {uid: seen[uid] for uid in uids & seen.keys()} | await self._described(uids - seen.keys())
        rows = self._history(reports)
        try:
            return HistoryColumns(rows, pod_columns(rows, pod_rows, described))
        except BROKEN:
            return HistoryColumns(rows, pod_columns(rows, self._whole(rows, pod_rows, described), described))

    def _history(self, reports: Iterable[RowMapping]) -> list[HistoryRow]:
        """Returns the reports whose rows can be read. Unreadable rows go to the quarantine."""
        readable: list[HistoryRow] = []
        for row in reports:
            try:
                readable += history_rows([row], (), {})
            except BROKEN as error:
                self._note("node_usage", _place(row), error, row["host_apps"])
        return readable

    def _whole(
        self, reports: Sequence[HistoryRow], pod_rows: Sequence[Any], described: Mapping[str, Pod]
    ) -> Sequence[Any]:
        """Returns the rows of pods that can be read, each checked alone. Unreadable rows go to the quarantine."""
        whole = []
        for row in pod_rows:
            try:
                pod_columns(reports, [row], described)
            except BROKEN as error:
                self._note("report_pods", _place(row._mapping), error)
            else:
                whole.append(row)
        return whole

    async def _described(self, uids: Collection[str]) -> dict[str, Pod]:
        if not uids:
            return {}
        rows = await self._connection.execute(_DESCRIPTIONS, {"uids": list(uids)})
        pods = {}
        for row in rows:
            try:
                pods[row.uid] = pod_of(row.pod)
            except BROKEN as error:
                self._note("pods", row.uid, error, row.pod)
        return pods

    async def before(self, heads: Mapping[Agent, HistoryRow], oldest: datetime) -> Mapping[Agent, Before]:
        parameters = {
            "nodes": [node for node, _ in heads],
            "epochs": [epoch for _, epoch in heads],
            "sequences": [row.report.sequence for row in heads.values()],
            "at": [row.report.midpoint_at for row in heads.values()],
            "since": [max(oldest, row.report.midpoint_at - CLOCK_SET) for row in heads.values()],
            "until": [row.report.midpoint_at + CLOCK_SET for row in heads.values()],
            "oldest": oldest,
        }
        rows = await self._connection.execute(_BEFORE, parameters)
        return {(row.node, row.boot_epoch): Before(row.sequence, row.late) for row in rows}

    async def keep_days(self, days: Sequence[date]) -> None:
        if self._memory.days.issuperset(days):
            return
        have = frozenset(
            await self.days()
        )  # partitions made below may be rolled back, so they are cached only at the next call
        self._memory.days = have
        missing = [day for day in days if day not in have]
        if not missing:
            return
        lock = text("SELECT pg_advisory_xact_lock(:key)")
        await self._connection.execute(lock, {"key": lock_key("partitions", "ingestion")})
        for day in missing:
            start = datetime.combine(day, time(), UTC)
            end = start + timedelta(days=1)
            for table, options in _PARTITIONED.items():
                part = f"{table}_{day:%Y%m%d}"
                uninformed = ", ".join(f"ALTER COLUMN {column} SET STATISTICS 0" for column in _UNSEARCHED[table])
                await self._connection.execute(
                    text(
                        f"CREATE TABLE IF NOT EXISTS {part} PARTITION OF {table}"
                        f" FOR VALUES FROM ('{start.isoformat()}') TO ('{end.isoformat()}'){options}"
                    )
                )
                await self._connection.execute(text(f"ALTER TABLE {part} {uninformed}"))

    async def days(self) -> Sequence[date]:
        """Returns the days that have a partition in history."""
        rows = await self._connection.execute(_PARTITIONS, {"parent": list(_PARTITIONED)[-1]})
        return sorted(datetime.strptime(row[0][-8:], "%Y%m%d").replace(tzinfo=UTC).date() for row in rows)

    async def delete_before(self, day: date) -> None:
        self._memory.days = frozenset()
        for old in await self.days():
            if old < day:
                for table in _PARTITIONED:
                    await self._connection.execute(text(f"DROP TABLE IF EXISTS {table}_{old:%Y%m%d}"))
        gone = text(
            "DELETE FROM pods WHERE last_seen_at < :day AND NOT (present AND EXISTS"
            " (SELECT FROM nodes n WHERE n.name = pods.node AND n.last_report_at >= :day))"
        )
        await self._connection.execute(gone, {"day": datetime.combine(day, time(), UTC)})
        await self._connection.execute(
            text("DELETE FROM nodes WHERE deleted_at < :day"), {"day": datetime.combine(day, time(), UTC)}
        )


def _place(row: RowMapping) -> str:
    """Returns the name of a report in the quarantine: node/boot_epoch/sequence."""
    return f"{row['node']}/{row['boot_epoch']}/{row['sequence']}"


def _columns_of_spans(spans: Mapping[str, tuple[datetime, datetime]]) -> dict[str, list[Any]]:
    since, until = ([span[side] for span in spans.values()] for side in (0, 1))
    return {"nodes": list(spans), "since": since, "until": until}


def _presence(row: RowMapping) -> PodPresence:
    return PodPresence(row["uid"], row["node"], row["last_seen_at"], Liveness(row["liveness"]))
