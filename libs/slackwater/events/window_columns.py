"""The form in which a window travels: columns with one value per pod, or one for all pods where they are alike.

Windows are kept for a day, replayed and folded exactly once, so each has the identities of its pods with it: it depends
on no other message, and its readers keep no rosters.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter, itemgetter
from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field

from slackwater.events.joined_pods import LazyRows
from slackwater.events.report_columns import (
    ABSENT,
    VALUES,
    DistributionColumns,
    InvalidColumns,
    alike,
    check_distributions,
    differences,
    spread,
    table_of,
)
from slackwater.events.windowed_usage import WindowedHostApp, WindowedPod, WindowedUsage
from slackwater.model.bounds import (
    Count,
    CpuMilli,
    Items,
    Labels,
    MachineAmount,
    Mapped,
    Moment,
    Name,
    PodPriority,
    WindowSeconds,
)
from slackwater.model.pods import Pod
from slackwater.model.quantities import Resources
from slackwater.model.records import record
from slackwater.model.tiers import QoSClass, Tier

_Names = Annotated[Items[Name], ABSENT]


@record(frozen=True, slots=True)
class WindowPodColumns:
    """The pods of a window: identity, request and usage. Each column has one value per pod of `uids`, or one for all.
    `p90`, `p95` and `max` are differences to the column before; `count` of `cpu_milli` has the samples."""

    uids: _Names = ()
    names: _Names = ()
    namespaces: _Names = ()
    workloads: _Names = ()
    tiers: Annotated[Items[Annotated[Name, Field(examples=["prod"])]], ABSENT] = ()
    qos: Annotated[Items[Annotated[Name, Field(examples=["LS"])]], ABSENT] = ()
    priorities: Annotated[Items[PodPriority], ABSENT] = ()
    request_cpu_milli: Annotated[Items[CpuMilli], ABSENT] = ()
    request_memory_bytes: Annotated[Items[MachineAmount], ABSENT] = ()
    started_at: Annotated[Items[Moment], ABSENT] = ()
    labels: Annotated[Items[Labels], ABSENT] = ()
    cpu_milli: DistributionColumns = DistributionColumns()
    memory_bytes: DistributionColumns = DistributionColumns()


class WindowColumns(BaseModel):
    """A window as it travels. The fields but `pods` are those of UsageWindowed."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    node: Name
    number: Count
    window_start: Moment
    window_seconds: WindowSeconds
    node_usage: WindowedUsage
    system_usage: WindowedUsage | None
    tiers: Mapped[WindowedUsage]
    pods: WindowPodColumns = WindowPodColumns()
    reports: Count
    gaps: Count
    host_apps: Annotated[Items[WindowedHostApp], ABSENT] = ()


SHARED: Final = tuple(name for name in WindowColumns.model_fields if name != "pods")
_OF_PODS: Final = {
    "names": "name",
    "namespaces": "namespace",
    "workloads": "workload",
    "tiers": "tier",
    "qos": "qos",
    "priorities": "priority",
    "request_cpu_milli": "request.cpu_milli",
    "request_memory_bytes": "request.memory_bytes",
    "started_at": "started_at",
}
"""The field of Pod that a column has."""
_TIERS: Final = {str(tier): tier for tier in Tier}
_QOS: Final = {str(qos): qos for qos in QoSClass}
_TIER, _QOS_CLASS = 4, 5
"""Places of the fields of Pod."""
_STATISTICS: Final = tuple(map(VALUES.index, ("avg", "p90", "p95", "max")))


def columns_of(pods: Sequence[WindowedPod]) -> WindowPodColumns:
    """Returns pods as columns, in their order."""
    described, usages = [pod.pod for pod in pods], [pod.usage for pod in pods]
    columns: dict[str, Any] = {name: alike(map(attrgetter(field), described)) for name, field in _OF_PODS.items()}
    return WindowPodColumns(
        uids=tuple(pod.uid for pod in described),
        labels=alike(pod.labels for pod in described) if any(pod.labels for pod in described) else (),
        cpu_milli=_distributions(usages, "cpu_{}_milli", alike(usage.samples for usage in usages)),
        memory_bytes=_distributions(usages, "memory_{}_bytes", ()),
        **columns,
    )


def _distributions(usages: Sequence[WindowedUsage], name: str, count: tuple[int, ...]) -> DistributionColumns:
    average, p90, p95, highest = (
        [getattr(usage, name.format(part)) for usage in usages] for part in ("avg", "p90", "p95", "max")
    )
    return DistributionColumns(
        avg=alike(average) if any(average) else (),
        p90=differences(p90, average),
        p95=differences(p95, p90),
        max=differences(highest, p95),
        count=count if any(count) else (),
    )


class WindowedPods(LazyRows[WindowedPod]):
    """The pods of a window that was read. One whose tier or QoS class this version does not know is left out."""

    __slots__ = ("columns",)

    def __init__(self, columns: WindowPodColumns) -> None:
        """Raises InvalidColumns."""
        super().__init__()
        self.columns = columns
        count = len(columns.uids)
        for name in (*_OF_PODS, "labels"):
            length = len(getattr(columns, name))
            if length not in {1, count} and (length or name != "labels"):
                raise InvalidColumns(f"pods.{name}: {length} values for {count} pods")
        check_distributions((columns.cpu_milli, columns.memory_bytes), count)
        if self.unknown():
            self.built()

    def unknown(self) -> list[tuple[str, str]]:
        """Returns column and name of the tiers and QoS classes that this version does not know."""
        columns = (("tiers", _TIERS, self.columns.tiers), ("qos", _QOS, self.columns.qos))
        return [(column, name) for column, names, sent in columns for name in sent if name not in names]

    @property
    def is_partial(self) -> bool:
        """Whether pods were left out, so that columns have more places than there are pods."""
        return len(self) < len(self.columns.uids)

    def __len__(self) -> int:
        return len(self.columns.uids if self._rows is None else self._rows)

    def usage(self) -> list[Sequence[int]]:
        """Returns one sequence for each field of WindowedUsage, with one number per place."""
        count = len(self.columns.uids)
        cpu, memory = table_of(self.columns.cpu_milli, count), table_of(self.columns.memory_bytes, count)
        return [*itemgetter(*_STATISTICS)(cpu), *itemgetter(*_STATISTICS)(memory), cpu[-1]]

    def build(self) -> tuple[WindowedPod, ...]:
        columns, count = self.columns, len(self.columns.uids)

        def column(name: str) -> Sequence[Any]:
            return spread(getattr(columns, name), count)

        rows = zip(
            columns.uids,
            *(column(name) for name in ("names", "namespaces", "workloads")),
            map(_TIERS.get, column("tiers")),
            map(_QOS.get, column("qos")),
            column("priorities"),
            map(Resources, column("request_cpu_milli"), column("request_memory_bytes")),
            column("started_at"),
            column("labels") or ({},) * count,
            strict=True,
        )
        usages = map(WindowedUsage, *self.usage())
        return tuple(
            WindowedPod(Pod(*row), usage)
            for row, usage in zip(rows, usages, strict=True)
            if row[_TIER] is not None and row[_QOS_CLASS] is not None
        )
