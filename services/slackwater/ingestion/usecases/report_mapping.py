"""Maps events to the types of the domain."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from itertools import chain

import numpy as np

from slackwater.events.measures import Distribution, HostAppUsage, PodUsage
from slackwater.events.pod_columns import by_columns
from slackwater.events.report_columns import numbers_of
from slackwater.events.usage_reported import UsageReported
from slackwater.ingestion.domain.columns import FIELDS, HistoryColumns, Ints, ReportPodColumns, asides_of
from slackwater.ingestion.domain.reports import HistoryRow, MeasuredApp, MeasuredPod, Pressures, Report, UsageSeries


def report_from(data: UsageReported) -> Report:
    """Maps the report as it was sent, without validation."""
    return replace(head_from(data), pods=tuple(_pod(measured) for measured in data.pods))


def head_from(data: UsageReported) -> Report:
    """Maps the report without its pods."""
    system = data.system_usage
    return Report(
        node=data.node,
        boot_epoch=data.boot_epoch,
        sequence=data.sequence,
        sampled_at=data.sampled_at,
        window_seconds=data.window_seconds,
        cpu=_series(data.node_usage.cpu_milli),
        memory=_series(data.node_usage.memory_bytes),
        system_cpu=None if system is None else _series(system.cpu_milli),
        system_memory=None if system is None else _series(system.memory_bytes),
        pressures=Pressures(
            node_cpu_last=data.node_pressure.cpu_some_last,
            node_cpu_avg=data.node_pressure.cpu_some_avg,
            node_cpu_max=data.node_pressure.cpu_some_max,
            node_memory_avg=data.node_pressure.memory_some_avg,
            node_io_avg=data.node_pressure.io_some_avg,
            prod_cpu_last=data.prod_pressure.cpu_some_last,
            prod_cpu_avg=data.prod_pressure.cpu_some_avg,
            prod_cpu_max=data.prod_pressure.cpu_some_max,
        ),
        host_apps=tuple(map(_app, data.host_apps)) if data.host_apps else (),
        failed=tuple(data.failed_pods) if data.failed_pods else (),
    )


def history_from(reports: Sequence[UsageReported], received_at: datetime) -> HistoryColumns:
    """Maps many reports to columns, equal to `columns_of` over `report_from`.

    Raises OverflowError for a number that no column can hold.
    """
    columns = [by_columns(data.pods) for data in reports]
    counts = [len(pods) for pods in columns]
    return HistoryColumns(
        [HistoryRow(head_from(data), received_at) for data in reports],
        ReportPodColumns(
            report=np.repeat(np.arange(len(reports)), counts),
            pod=np.arange(sum(counts)),
            cpu=_together([pods.cpu for pods in columns]),
            memory=_together([pods.memory for pods in columns]),
            described=list(chain.from_iterable(pods.described for pods in columns)),
            asides=asides_of(
                list(chain.from_iterable(pods.cpu_limit_milli for pods in columns)),
                list(chain.from_iterable(pods.throttled_ratio for pods in columns)),
                list(chain.from_iterable(pods.cpu_some_avg for pods in columns)),
            ),
        ),
    )


def _together(tables: Sequence[Ints]) -> Ints:
    return np.concatenate(tables) if tables else np.zeros((0, FIELDS), dtype=np.int64)


def _pod(measured: PodUsage) -> MeasuredPod:
    usage = measured.usage
    return MeasuredPod(
        measured.pod,
        _series(usage.cpu_milli),
        _series(usage.memory_bytes),
        measured.cpu_limit_milli,
        measured.throttled_ratio,
        measured.pressure.cpu_some_avg,
    )


def _app(measured: HostAppUsage) -> MeasuredApp:
    usage = measured.usage
    return MeasuredApp(measured.name, measured.tier, _series(usage.cpu_milli), _series(usage.memory_bytes))


def _series(d: Distribution) -> UsageSeries:
    return UsageSeries._make(numbers_of(d))
