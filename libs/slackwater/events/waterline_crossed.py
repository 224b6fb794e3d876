"""waterline.crossed: the report of a node above a local waterline, told a second time on a way of its own.

The report itself travels as usage.reported like any other, and whoever counts or keeps reports reads it there. This is
the same report, under the same id, for who must act on it: it stands in no queue with the reports of calm nodes, and a
newer one of the node takes its place.
"""

from __future__ import annotations

from typing import Any, ClassVar, TypeVar, cast

from slackwater.events.envelope import Event, event_of
from slackwater.events.usage_reported import UsageReported

R = TypeVar("R", bound=UsageReported)

URGENT_TRIGGER = "waterline"


class WaterlineCrossed(UsageReported):
    """A usage.reported with the trigger `waterline`. Latest wins: who lost one finds the next in the next second, and
    the report itself in USAGE."""

    TYPE: ClassVar[str] = "waterline.crossed"
    STREAM: ClassVar[str] = "URGENT"


def crossing_of(report: Event[UsageReported]) -> Event[WaterlineCrossed] | None:
    """The same report for its second way; None for one that is not urgent."""
    return _with(report, _as(WaterlineCrossed, report.data)) if report.data.trigger == URGENT_TRIGGER else None


def report_of(crossing: Event[WaterlineCrossed]) -> Event[UsageReported]:
    """The report that a crossing tells of."""
    return _with(crossing, _as(UsageReported, crossing.data))


def _as(shape: type[R], report: UsageReported) -> R:
    return cast(R, shape.model_construct(report.model_fields_set, **dict(report)))


def _with(event: Event[Any], data: R) -> Event[R]:
    """All attributes of the event around the same report."""
    return event_of(
        data,
        source=event.source,
        time=event.time,
        causedby=event.causedby,
        traceparent=event.traceparent,
        id=event.id,
    )
