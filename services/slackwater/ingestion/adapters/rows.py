"""Converts between rows of PostgreSQL and the types of the domain."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import nan
from typing import Any

import msgspec
import numpy as np
from pydantic import TypeAdapter
from sqlalchemy import RowMapping

from slackwater.ingestion.adapters import binary
from slackwater.ingestion.adapters.range_codec import packed, unpacked
from slackwater.ingestion.domain.columns import NO_LIMIT, ReportPodColumns
from slackwater.ingestion.domain.reports import (
    HistoryRow,
    KnownNode,
    MeasuredApp,
    MeasuredPod,
    Pressures,
    Report,
    SequenceTrack,
    UsageSeries,
)
from slackwater.model.nodes import Liveness, NodeFacts
from slackwater.model.pods import Pod
from slackwater.model.quantities import Resources

_LAST_YEAR = 9000
_MOST = 2**62
"""Larger values are refused because their sums do not fit 64 bits."""
PODS = TypeAdapter(Pod)
pod_of: Callable[[str], Pod] = msgspec.json.Decoder(Pod).decode
"""Decodes what PODS has written. A window needs thirty of them, so this uses msgspec."""
FACTS = TypeAdapter(NodeFacts)

apps_of: Callable[[str], tuple[MeasuredApp, ...]] = msgspec.json.Decoder(tuple[MeasuredApp, ...]).decode
_encode = msgspec.json.Encoder().encode


def apps_text(apps: tuple[MeasuredApp, ...]) -> str:
    """Encodes as JSON: name, tier and both series of each application, in the order of their fields."""
    return _encode(apps).decode()


NODE_USAGE = (
    "midpoint_at", "node", "boot_epoch", "sequence", "sampled_at", "received_at", "window_seconds", "gap_delta", "late",
    "cpu", "memory", "system_cpu", "system_memory", *(f"{name}" for name in Pressures._fields), "host_apps",
)  # fmt: skip
REPORT_PODS = (
    "midpoint_at", "node", "boot_epoch", "sequence", "uids", "tiers", "cpu", "memory", "cpu_limits", "throttled",
    "cpu_pressure",
)  # fmt: skip


def node_usage(row: HistoryRow) -> Sequence[Any]:
    """Returns one accepted report in the column order of NODE_USAGE."""
    report = row.report
    return (
        report.midpoint_at, report.node, report.boot_epoch, report.sequence, report.sampled_at, row.received_at,
        report.window_seconds, row.gap_delta, row.late, report.cpu, report.memory, report.system_cpu,
        report.system_memory, *report.pressures, apps_text(report.host_apps) if report.host_apps else None,
    )  # fmt: skip


def report_pods(row: HistoryRow) -> Sequence[Any]:
    """Returns the pods of a report in the column order of REPORT_PODS; the report must have pods.

    A limit of -1 means no limit; a ratio of NaN means unknown.
    """
    report, pods = row.report, row.report.pods
    return (
        report.midpoint_at, report.node, report.boot_epoch, report.sequence,
        [measured.pod.uid for measured in pods], [measured.pod.tier for measured in pods],
        [measured.cpu for measured in pods], [measured.memory for measured in pods],
        [NO_LIMIT if measured.cpu_limit_milli is None else measured.cpu_limit_milli for measured in pods],
        [nan if measured.throttled_ratio is None else measured.throttled_ratio for measured in pods],
        [nan if measured.cpu_pressure is None else measured.cpu_pressure for measured in pods],
    )  # fmt: skip


def known_node(row: RowMapping) -> KnownNode:
    """Builds a node from one row of `nodes`. Raises ValueError, TypeError or LookupError for an invalid row."""
    for name in ("last_report_at", "newest_at", "closed_until", "hole_from", "hole_seen_at", "deleted_at"):
        if row[name] is not None and row[name].year >= _LAST_YEAR:
            raise ValueError(f"{name}: {row[name]} must be before the year {_LAST_YEAR}")
    if not 0 <= (row["cpu_capacity_milli"] or 0) < _MOST or not 0 <= (row["memory_capacity_bytes"] or 0) < _MOST:
        raise ValueError(
            f"capacity: {row['cpu_capacity_milli']} milli-cores and {row['memory_capacity_bytes']} bytes"
            f" must be from 0 to below {_MOST}"
        )
    described = row["cpu_capacity_milli"] is not None
    return KnownNode(
        name=row["name"],
        capacity=Resources(row["cpu_capacity_milli"], row["memory_capacity_bytes"]) if described else None,
        track=SequenceTrack(
            row["boot_epoch"],
            tuple(row["previous_epoch"].split("\n")) if row["previous_epoch"] else (),
            row["last_sequence"],
            unpacked(row["missing"]),
        ),
        last_report_at=row["last_report_at"],
        liveness=Liveness(row["liveness"]) if row["liveness"] else None,
        newest_at=row["newest_at"],
        closed_until=row["closed_until"],
        gaps=row["gaps"],
        hole_from=row["hole_from"],
        hole_seen_at=row["hole_seen_at"],
        deleted_at=row["deleted_at"],
    )


def node_columns(nodes: Sequence[KnownNode]) -> dict[str, list[Any]]:
    """Returns the parameters that save nodes, one list per column; `missing` is the text of an array, and
    `previous_epoch` has a line per epoch.
    """
    return {
        "name": [node.name for node in nodes],
        "boot_epoch": [node.track.boot_epoch for node in nodes],
        "previous_epoch": ["\n".join(node.track.previous_epochs) or None for node in nodes],
        "last_sequence": [node.track.last for node in nodes],
        "missing": ["{" + ",".join(map(str, packed(node.track.missing))) + "}" for node in nodes],
        "last_report_at": [node.last_report_at for node in nodes],
        "liveness": [node.liveness for node in nodes],
        "newest_at": [node.newest_at for node in nodes],
        "closed_until": [node.closed_until for node in nodes],
        "gaps": [node.gaps for node in nodes],
        "hole_from": [node.hole_from for node in nodes],
        "hole_seen_at": [node.hole_seen_at for node in nodes],
        "deleted_at": [node.deleted_at for node in nodes],
    }


def history_rows(
    reports: Iterable[RowMapping], pods: Iterable[RowMapping], described: Mapping[str, Pod]
) -> list[HistoryRow]:
    """Builds accepted reports with their pods, in the order of `reports`. Leaves out pods whose description was
    deleted.
    """
    measured: dict[tuple[str, str, int], list[MeasuredPod]] = defaultdict(list)
    for row in pods:
        if row["uid"] not in described:
            continue
        measured[row["node"], row["boot_epoch"], row["sequence"]].append(
            MeasuredPod(
                pod=described[row["uid"]],
                cpu=UsageSeries(*row["cpu"]),
                memory=UsageSeries(*row["memory"]),
                cpu_limit_milli=row["cpu_limit_milli"],
                throttled_ratio=row["throttled_ratio"],
                cpu_pressure=row["cpu_pressure"],
            )
        )
    return [_history_row(row, measured) for row in reports]


def _history_row(row: RowMapping, measured: dict[tuple[str, str, int], list[MeasuredPod]]) -> HistoryRow:
    report = Report(
        node=row["node"],
        boot_epoch=row["boot_epoch"],
        sequence=row["sequence"],
        sampled_at=row["sampled_at"],
        window_seconds=row["window_seconds"],
        cpu=UsageSeries(*row["cpu"]),
        memory=UsageSeries(*row["memory"]),
        system_cpu=UsageSeries(*row["system_cpu"]) if row["system_cpu"] else None,
        system_memory=UsageSeries(*row["system_memory"]) if row["system_memory"] else None,
        pressures=Pressures(*(row[name] for name in Pressures._fields)),
        pods=tuple(measured.get((row["node"], row["boot_epoch"], row["sequence"]), ())),
        host_apps=apps_of(apps) if (apps := row["host_apps"]) else (),
    )
    return HistoryRow(report, row["received_at"], row["gap_delta"], row["late"])


def pod_columns(
    reports: Sequence[HistoryRow], pod_rows: Sequence[Any], described: Mapping[str, Pod]
) -> ReportPodColumns:
    """Builds pod columns from rows of `report_pods` with `cpu` and `memory` in wire format.

    Leaves out pods whose description was deleted, and reports stored between the two queries: readers take no locks.
    """
    place = {(row.report.node, row.report.boot_epoch, row.report.sequence): n for n, row in enumerate(reports)}
    pod_rows = [row for row in pod_rows if (row.node, row.boot_epoch, row.sequence) in place]
    pod_place = {uid: n for n, uid in enumerate(described)}
    cpu, memory = binary.series_of([row.cpu for row in pod_rows]), binary.series_of([row.memory for row in pod_rows])
    report = np.repeat(
        np.array([place[row.node, row.boot_epoch, row.sequence] for row in pod_rows], dtype=np.int64),
        np.array([len(row.uids) for row in pod_rows], dtype=np.int64),
    )
    pod = np.array([pod_place.get(uid, -1) for row in pod_rows for uid in row.uids], dtype=np.int64)
    known = pod >= 0
    return ReportPodColumns(report[known], pod[known], cpu[known], memory[known], list(described.values()))
