"""waterline.crossed: a copy of a node's report above a local waterline, on a stream of its own.

The report is also published as usage.reported; consumers that count or store reports read it there. The copy has the
same id and serves consumers that act on it: it does not queue behind reports of calm nodes, and a newer report of the
node replaces it.
"""

from __future__ import annotations

from typing import Any, ClassVar, TypeVar, cast

from slackwater.events.envelope import Event, event_of
from slackwater.events.usage_reported import UsageReported

R = TypeVar("R", bound=UsageReported)

URGENT_TRIGGER = "waterline"


class WaterlineCrossed(UsageReported):
    """A usage.reported with the trigger `waterline`. Latest wins: the next one follows within a second, and the stream
    USAGE holds the original report."""

    TYPE: ClassVar[str] = "waterline.crossed"
    STREAM: ClassVar[str] = "URGENT"
    FROM_AGENT: ClassVar[bool] = True


def crossing_of(report: Event[UsageReported]) -> Event[WaterlineCrossed] | None:
    """The copy of an urgent report for the stream URGENT; None for other reports."""
    return _with(report, _as(WaterlineCrossed, report.data)) if report.data.trigger == URGENT_TRIGGER else None


def report_of(crossing: Event[WaterlineCrossed]) -> Event[UsageReported]:
    """The usage.reported that the crossing is a copy of."""
    return _with(crossing, _as(UsageReported, crossing.data))


def _as(shape: type[R], report: UsageReported) -> R:
    return cast(R, shape.model_construct(report.model_fields_set, **dict(report)))


def _with(event: Event[Any], data: R) -> Event[R]:
    """A new event with the attributes of `event` around `data`."""
    return event_of(
        data,
        source=event.source,
        time=event.time,
        causedby=event.causedby,
        traceparent=event.traceparent,
        id=event.id,
    )
