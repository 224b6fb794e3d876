"""Tracks which pods are on which node. Rows are written when pods appear, change or disappear, not with every report.

While a node reports the same pods, the node's row holds the time they were last seen. The cache of what this process
wrote is valid only while the node's row is as this process left it: after another writer, a rollback or a restart all
pods are written again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from slackwater.ingestion.adapters.binary import Identities
from slackwater.ingestion.adapters.rows import PODS
from slackwater.ingestion.domain.columns import HistoryColumns
from slackwater.ingestion.domain.reports import KnownNode
from slackwater.model.pods import Pod

_GONE = text("""
UPDATE pods SET present = false, last_seen_at = greatest(last_seen_at, seen.at)
FROM unnest(CAST(:nodes AS text[]), CAST(:seen_at AS timestamptz[])) AS seen(node, at)
WHERE pods.node = seen.node AND pods.present
    AND NOT EXISTS (SELECT FROM unnest(CAST(:uids AS text[])) AS still(uid) WHERE still.uid = pods.uid)
""")
_SEE = text("""
INSERT INTO pods (uid, node, pod, last_seen_at, liveness, present)
SELECT uid, node, CAST(pod AS jsonb), seen_at, 'fresh', present
FROM unnest(CAST(:uid AS text[]), CAST(:node AS text[]), CAST(:pod AS text[]), CAST(:seen_at AS timestamptz[]),
    CAST(:present AS boolean[])) AS seen(uid, node, pod, seen_at, present)
ON CONFLICT (uid) DO UPDATE SET node = excluded.node, pod = excluded.pod, last_seen_at = excluded.last_seen_at,
    liveness = excluded.liveness, present = excluded.present
""")

_Present = tuple[datetime, Sequence[Pod]]
"""Time of receipt of a report, and its pods."""


@dataclass(frozen=True, slots=True)
class _Last:
    """The pods of a node, and when they were last seen."""

    at: datetime
    pods: Sequence[Pod]


@dataclass(slots=True)
class Memory:
    """Caches what the last report of each node wrote. The ledgers of one process share it."""

    last: dict[str, _Last] = field(default_factory=dict)
    identities: Identities = field(default_factory=Identities)
    days: frozenset[date] = frozenset()
    """Days that had a partition in history at the last check."""

    def pods_of(self, node: str) -> Iterator[tuple[str, Pod]]:
        """Returns the pods of the node's last report, with their uids."""
        last = self.last.get(node)
        return ((pod.uid, pod) for pod in (last.pods if last is not None else ()))


@dataclass(slots=True)
class _Seen:
    """A pod in the batch; `present` tells whether it is in the last report of the batch."""

    node: str
    pod: Pod
    at: datetime
    present: bool


async def see(
    connection: AsyncConnection, history: HistoryColumns, known: Mapping[str, KnownNode], memory: Memory
) -> None:
    """Writes the pods of the accepted reports, in their order. `known` holds their nodes as stored."""
    changed: dict[str, list[_Present]] = {}
    unchanged: dict[str, datetime] = {}
    for row, pods in zip(history.rows, history.described(), strict=True):
        node = row.report.node
        last = memory.last.get(node)
        same = last is not None and last.pods == pods and node not in changed
        if same and (node in unchanged or _as_left(last, known.get(node))):
            unchanged[node] = row.received_at
        else:
            changed.setdefault(node, []).append((row.received_at, pods))
        memory.last[node] = _Last(row.received_at, pods)
    reported_at = {node: stored.last_report_at for node, stored in known.items() if stored.last_report_at} | unchanged
    if changed:
        await _write(connection, changed, reported_at)


def _as_left(last: _Last | None, known: KnownNode | None) -> bool:
    """Returns whether the stored row of the node is the one that was saved with `last`."""
    if last is None or known is None:
        return False
    return known.last_report_at == last.at


async def _write(
    connection: AsyncConnection, changed: Mapping[str, Sequence[_Present]], heard: Mapping[str, datetime]
) -> None:
    seen: dict[str, _Seen] = {}
    for node, reports in changed.items():
        present = {pod.uid for pod in reports[-1][1]}
        for received_at, pods in reports:
            for pod in pods:
                seen[pod.uid] = _Seen(node, pod, received_at, pod.uid in present)
    before = sorted(node for node in changed if node in heard)
    if before:
        seen_at = [heard[node] for node in before]
        await connection.execute(_GONE, {"nodes": before, "seen_at": seen_at, "uids": list(seen)})
    if seen:
        await connection.execute(_SEE, _columns(sorted(seen.items())))


def _columns(seen: Iterable[tuple[str, _Seen]]) -> dict[str, list[Any]]:
    columns: dict[str, list[Any]] = {name: [] for name in ("uid", "node", "pod", "seen_at", "present")}
    for uid, last_seen in seen:
        columns["uid"].append(uid)
        columns["node"].append(last_seen.node)
        columns["pod"].append(PODS.dump_json(last_seen.pod).decode())
        columns["seen_at"].append(last_seen.at)
        columns["present"].append(last_seen.present)
    return columns
