"""The form in which a report travels: columns of integers, one number per pod, in the order of the node's roster.

Identities and requests change rarely and are four fifths of a report's bytes. They travel as `pods.rostered`; a report
names the roster that it counts by.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from itertools import repeat
from typing import Annotated, Any, Final, Literal, TypeVar

from annotated_types import Interval
from msgspec import Meta
from pydantic import BaseModel, ConfigDict, Field

from slackwater.events.measures import Distribution, HostAppUsage, KnownBytes, PodUsage, Pressure, Usage, is_unknown
from slackwater.events.rosters import Roster, Slot
from slackwater.model.bounds import (
    MOST_BYTES_PER_SECOND,
    MOST_MEMORY_BYTES,
    MOST_PODS,
    MOST_RATIO,
    Count,
    Items,
    Moment,
    Name,
    Samples,
    Seconds,
)
from slackwater.model.devices import DiskUse, LinkUse
from slackwater.model.placement_rules import Few
from slackwater.model.pods import Pod
from slackwater.model.records import record

PARTS: Final = 10_000
"""Ratios travel in parts per ten thousand."""
UNKNOWN: Final = -1
"""In place of a value that a pod does not have."""
PAGE: Final = 4096
_Unit = Annotated[int, Interval(ge=1, le=PAGE), Meta(ge=1, le=PAGE), Field(exclude_if=lambda unit: unit == 1)]
RefaultRate = Annotated[float, Interval(ge=0, le=MOST_BYTES_PER_SECOND), Meta(ge=0, le=MOST_BYTES_PER_SECOND)]
Trigger = Literal["interval", "waterline", "pods", "shutdown", "leave"]
"""The reason of a report: its interval is over, a waterline was crossed, other pods run, the agent stops, its node
leaves."""

_Signed = Annotated[
    int, Interval(ge=-MOST_MEMORY_BYTES, le=MOST_MEMORY_BYTES), Meta(ge=-MOST_MEMORY_BYTES, le=MOST_MEMORY_BYTES)
]
_Known = Annotated[int, Interval(ge=UNKNOWN, le=MOST_MEMORY_BYTES), Meta(ge=UNKNOWN, le=MOST_MEMORY_BYTES)]
_Parts = Annotated[int, Interval(ge=UNKNOWN, le=int(MOST_RATIO * PARTS)), Meta(ge=UNKNOWN, le=int(MOST_RATIO * PARTS))]
ABSENT: Final = Field(exclude_if=operator.not_)
"""A column that is omitted if empty."""
Differences = Annotated[Items[_Signed], ABSENT]
Amounts = Annotated[Items[_Known], ABSENT]
"""A column of amounts; UNKNOWN where a pod has none. Absent: no pod has one."""
Parts = Annotated[Items[_Parts], ABSENT]
"""A column of ratios in parts per ten thousand; otherwise as Amounts."""
Counts = Annotated[Items[Samples], ABSENT]
Place = Annotated[int, Interval(ge=0, le=MOST_PODS - 1), Meta(ge=0, le=MOST_PODS - 1), Field(examples=[0])]


@record(frozen=True, slots=True)
class DistributionColumns:
    """The distributions of all pods. `avg` has the values; `p50` and `last` their differences to `avg`, and `p90`,
    `p95`, `p99` and `max` those to the column before them. An absent column of differences is zero for all pods.
    Each column has one number for each pod, or one for all. All but `count` are in `unit`: memory comes in pages.
    `count` of memory is omitted where it is that of CPU."""

    avg: Amounts = ()
    p50: Differences = ()
    p90: Differences = ()
    p95: Differences = ()
    p99: Differences = ()
    max: Differences = ()
    last: Differences = ()
    count: Counts = ()
    unit: _Unit = 1


@record(frozen=True, slots=True)
class UnreadLimit:
    """The pod whose CPU limit could not be read, by its place in the roster, and why."""

    place: Place
    reason: Name


@record(frozen=True, slots=True)
class MeasureColumns:
    """The measures of all pods (see PodUsage): each column has one number per pod, or one for all, or is absent."""

    cpu_milli: DistributionColumns = DistributionColumns()
    memory_bytes: DistributionColumns = DistributionColumns()
    cpu_some_last: Parts = ()
    cpu_some_avg: Parts = ()
    cpu_some_max: Parts = ()
    memory_some_avg: Parts = ()
    io_some_avg: Parts = ()
    throttled_ratio: Parts = ()
    cpu_limit_milli: Amounts = ()
    original_cpu_limit_milli: Amounts = ()
    memory_high_bytes: Amounts = ()
    original_memory_high_bytes: Amounts = ()
    reclaimable_bytes: Amounts = ()
    unread: Annotated[Items[UnreadLimit], ABSENT] = ()


def _is_usual(trigger: str) -> bool:
    return trigger == "interval"


class ReportColumns(BaseModel):
    """A report as it travels. `roster` is the digest of the roster that `pods` counts by, `roster_slot` the subject of
    `pods.rostered` that has it. A report that is published by itself carries it in `own_roster`. The other fields are
    those of UsageReported."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    node: Name
    boot_epoch: Name
    sequence: Count
    sampled_at: Moment
    window_seconds: Seconds
    trigger: Trigger = Field(default="interval", exclude_if=_is_usual)
    dropped_reports: Count = Field(default=0, exclude_if=operator.not_)
    node_usage: Usage
    system_usage: Usage | None = None
    node_pressure: Pressure = Pressure()
    prod_pressure: Pressure = Pressure()
    roster: Name
    roster_slot: Slot = Field(default=0, exclude_if=operator.not_)
    pods: MeasureColumns = MeasureColumns()
    disks: Annotated[Items[DiskUse], ABSENT] = ()
    links: Annotated[Items[LinkUse], ABSENT] = ()
    host_apps: Annotated[Items[HostAppUsage], ABSENT] = ()
    alone: bool = Field(default=False, exclude_if=operator.not_)
    prod_refault_bytes_per_second: RefaultRate | None = Field(default=None, exclude_if=is_unknown)
    node_free_bytes: KnownBytes = None
    cpu_weights: Literal["by-tier", "by-tier-idle"] | None = Field(default=None, exclude_if=is_unknown)
    intent_declared_at: Moment | None = Field(default=None, exclude_if=is_unknown)
    left_out: Few[Name] = Field(default=(), exclude_if=operator.not_)
    own_roster: Roster | None = Field(default=None, exclude_if=is_unknown)


_OF_COLUMNS = frozenset({"roster", "roster_slot", "pods", "own_roster"})
SHARED: Final = tuple(name for name in ReportColumns.model_fields if name not in _OF_COLUMNS)
"""The fields that a report has in both forms."""
_SHARES: Final = ("cpu_some_last", "cpu_some_avg", "cpu_some_max", "memory_some_avg", "io_some_avg")
_AMOUNTS: Final = (
    *("cpu_limit_milli", "original_cpu_limit_milli"),
    *("memory_high_bytes", "original_memory_high_bytes", "reclaimable_bytes"),
)
COLUMNS: Final = (*_SHARES, "throttled_ratio", *_AMOUNTS)
VALUES: Final = ("avg", "p50", "p90", "p95", "p99", "max", "last", "count")
"""The fields of a Distribution in order."""
numbers_of = operator.attrgetter(*VALUES)
"""The columns of a DistributionColumns in order; the fields of a Distribution."""
_others_of = operator.attrgetter(*COLUMNS)
T = TypeVar("T")


class InvalidColumns(ValueError):
    """Columns that do not fit their roster, or values out of bounds."""


def columns_of(pods: Sequence[PodUsage]) -> MeasureColumns:
    """Returns the measures of pods as columns, in their order."""
    columns: dict[str, Any] = {name: _column([_parts(getattr(pod.pressure, name)) for pod in pods]) for name in _SHARES}
    columns["throttled_ratio"] = _column([_parts(pod.throttled_ratio) for pod in pods])
    for name in _AMOUNTS:
        values = [getattr(pod, name) for pod in pods]
        columns[name] = _column([UNKNOWN if value is None else value for value in values])
    cpu = _distributions([pod.usage.cpu_milli for pod in pods])
    return MeasureColumns(
        cpu_milli=cpu,
        memory_bytes=_distributions([pod.usage.memory_bytes for pod in pods], cpu.count),
        unread=tuple(UnreadLimit(place, pod.unread) for place, pod in enumerate(pods) if pod.unread is not None),
        **columns,
    )


def _parts(ratio: float | None) -> int:
    return UNKNOWN if ratio is None else round(ratio * PARTS)


def _column(values: list[int]) -> tuple[int, ...]:
    return alike(values) if values and max(values) != UNKNOWN else ()


def alike(values: Iterable[T]) -> tuple[T, ...]:
    """Returns a column as it travels: one value where all are alike."""
    column = tuple(values)
    return column[:1] if column and column.count(column[0]) == len(column) else column


def spread(column: tuple[T, ...], count: int) -> tuple[T, ...]:
    """Returns a column with one value for each of `count` pods."""
    return column * count if len(column) == 1 else column


def _unit_of(columns: Sequence[Sequence[int]]) -> int:
    """Returns the page if all values are in whole pages, else 1."""
    return 1 if any(value % PAGE for column in columns for value in column) else PAGE


def _distributions(values: Sequence[Distribution], counts: tuple[int, ...] = ()) -> DistributionColumns:
    """Returns distributions as columns; without `count` if it is `counts`."""
    columns = [[getattr(distribution, name) for distribution in values] for name in VALUES]
    unit = _unit_of(columns[:-1])
    if unit > 1:
        columns = [*([value // unit for value in column] for column in columns[:-1]), columns[-1]]
    average, p50, p90, p95, p99, highest, last, count = columns
    return DistributionColumns(
        avg=alike(average) if any(average) else (),
        p50=differences(p50, average),
        p90=differences(p90, p50),
        p95=differences(p95, p90),
        p99=differences(p99, p95),
        max=differences(highest, p99),
        last=differences(last, average),
        count=() if (counts or (0,)) == (sent := alike(count)) else sent,
        unit=unit if any(map(any, columns[:-1])) else 1,
    )


def differences(values: list[int], before: list[int]) -> tuple[int, ...]:
    """Returns the values as differences to the column before; empty if there are none."""
    column = alike(map(operator.sub, values, before))
    return column if any(column) else ()


def check(columns: MeasureColumns, count: int) -> None:
    """Raises InvalidColumns unless each column has `count` numbers, and usage is that of a machine."""
    lengths = {len(column) for column in _others_of(columns) if column}
    if not lengths <= {count, min(count, 1)}:
        raise InvalidColumns(f"pods: columns of {sorted(lengths)} numbers for {count} pods")
    if any(unread.place >= count for unread in columns.unread):
        raise InvalidColumns(f"pods.unread: a place beyond the {count} pods of the roster")
    check_distributions((columns.cpu_milli, columns.memory_bytes), count)


def check_distributions(distributions: Iterable[DistributionColumns], count: int) -> None:
    """As `check`, for usage alone."""
    for columns in distributions:
        lengths = {len(column) for column in numbers_of(columns) if column}
        if not lengths <= {count, min(count, 1)}:
            raise InvalidColumns(f"pods: columns of {sorted(lengths)} numbers for {count} pods")
        if not _is_surely_bounded(columns) and any(
            min(column) < 0 or max(column) > MOST_MEMORY_BYTES for column in table_of(columns, count)[:-1]
        ):
            raise InvalidColumns("pods: usage below zero, or beyond any machine")


def _is_surely_bounded(columns: DistributionColumns) -> bool:
    """Returns whether no value can leave the bounds, without adding up what is the same for nearly all reports:
    percentiles rise, and together they stay far below the largest machine."""
    if not columns.avg:
        return not any((columns.p50, columns.p90, columns.p95, columns.p99, columns.max, columns.last))
    lowest = min(columns.avg)
    highest = greatest = max(columns.avg)
    for differences in (columns.p90, columns.p95, columns.p99, columns.max):
        if differences:
            if min(differences) < 0:
                return False
            highest += max(differences)
    if columns.p50:
        highest += max(columns.p50)
    most = MOST_MEMORY_BYTES // columns.unit
    return (
        lowest >= 0
        and highest <= most
        and greatest + max(columns.last or (0,)) <= most
        and all(
            lowest + min(column) >= 0 or (len(column) > 1 and min(map(operator.add, columns.avg, column)) >= 0)
            for column in (columns.p50, columns.last)
            if column
        )
    )


def table_of(columns: DistributionColumns, count: int, usual: tuple[int, ...] = ()) -> list[Sequence[int]]:
    """Returns one sequence for each field of Distribution, of checked columns; `usual` in place of an absent count."""
    average, p50, *rising, last, _ = (spread(column or (0,), count) for column in numbers_of(columns))
    values: list[Sequence[int]] = [average, _added(average, p50)]
    for differences in rising:
        values.append(_added(values[-1], differences))
    values.append(_added(average, last))
    if columns.unit > 1:
        values = [[value * columns.unit for value in column] for column in values]
    return [*values, spread(columns.count or usual or (0,), count)]


def _added(values: Sequence[int], differences: Sequence[int]) -> Sequence[int]:
    return list(map(operator.add, values, differences)) if any(differences) else values


def usages_of(described: Sequence[Pod | None], columns: MeasureColumns) -> tuple[PodUsage, ...]:
    """Returns the pods of a report. `described` has None for a pod that this version does not know, which is left
    out."""
    count = len(described)
    pressures = map(Pressure, *(_ratios(getattr(columns, name), count) for name in _SHARES))
    amounts = zip(*(_optional(getattr(columns, name), count) for name in _AMOUNTS), strict=True)
    unread = {limit.place: limit.reason for limit in columns.unread}
    cpu = table_of(columns.cpu_milli, count)
    memory = table_of(columns.memory_bytes, count, columns.cpu_milli.count)
    usages = map(Usage, map(Distribution, *cpu), map(Distribution, *memory))
    rows = zip(described, usages, pressures, _ratios(columns.throttled_ratio, count), amounts, strict=True)
    return tuple(
        PodUsage(
            pod=pod,
            usage=usage,
            pressure=pressure,
            cpu_limit_milli=limit,
            original_cpu_limit_milli=original,
            throttled_ratio=throttled,
            memory_high_bytes=high,
            original_memory_high_bytes=original_high,
            reclaimable_bytes=reclaimable,
            unread=unread.get(place),
        )
        for place, (pod, usage, pressure, throttled, (limit, original, high, original_high, reclaimable)) in enumerate(
            rows
        )
        if pod is not None
    )


def ratios(column: tuple[int, ...], count: int) -> Sequence[float | None]:
    """Returns a column of ratios for `count` pods; None where it is unknown."""
    return list(_ratios(column, count))


def amounts(column: tuple[int, ...], count: int) -> Sequence[int | None]:
    """Returns a column of amounts for `count` pods; None where there is none."""
    return list(_optional(column, count))


def _ratios(column: tuple[int, ...], count: int) -> Iterable[float | None]:
    return [None if value < 0 else value / PARTS for value in spread(column, count)] if column else repeat(None, count)


def _optional(column: tuple[int, ...], count: int) -> Iterable[int | None]:
    return [None if value < 0 else value for value in spread(column, count)] if column else repeat(None, count)
