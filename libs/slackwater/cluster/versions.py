"""Which of two events of one source is the newer: the state of a node is the newest of each source."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from slackwater.events.eviction_completed import EvictionCompleted
from slackwater.events.intent_declared import IntentDeclared
from slackwater.events.intent_observed import IntentObserved
from slackwater.events.node_described import NodeDescribed
from slackwater.events.node_liveness_changed import NodeLivenessChanged
from slackwater.events.node_scheduling_changed import NodeSchedulingChanged
from slackwater.events.peak_predicted import PeakPredicted
from slackwater.events.pods_rostered import PodsRostered
from slackwater.events.resources_offered import ResourcesOffered
from slackwater.events.usage_reported import UsageReported
from slackwater.events.usage_windowed import UsageWindowed
from slackwater.events.waterline_crossed import WaterlineCrossed

Version = tuple[Any, ...]
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def micros(at: datetime) -> int:
    """Microseconds since 1970."""
    return (at - _EPOCH) // _MICROSECOND


def _of_report(report: UsageReported) -> Version:
    return report.boot_epoch, report.sequence, report.sampled_at, 1


def _of_roster(roster: PodsRostered) -> Version:
    """A roster precedes the report with its sequence."""
    return roster.boot_epoch, roster.sequence, roster.rostered_at, 0


_VERSIONS: Mapping[type, Callable[[Any], Version]] = {
    NodeDescribed: lambda data: (data.described_at, data.boot_epoch),
    UsageReported: _of_report,
    WaterlineCrossed: _of_report,
    PodsRostered: _of_roster,
    UsageWindowed: lambda data: (data.window_start, data.window_seconds),
    PeakPredicted: lambda data: (data.predicted_at, data.window_number),
    ResourcesOffered: lambda data: (data.offered_at, data.generation),
    IntentDeclared: lambda data: (data.epoch, data.generation),
    IntentObserved: lambda data: (data.generation, data.observed_at),
    NodeLivenessChanged: lambda data: (data.changed_at, data.liveness),
    NodeSchedulingChanged: lambda data: (data.told_at, data.closed),
}
_TIMES: Mapping[type, Callable[[Any], datetime]] = {
    NodeDescribed: lambda data: data.described_at,
    UsageReported: lambda data: data.sampled_at,
    WaterlineCrossed: lambda data: data.sampled_at,
    PodsRostered: lambda data: data.rostered_at,
    UsageWindowed: lambda data: data.window_start + timedelta(seconds=data.window_seconds),
    PeakPredicted: lambda data: data.predicted_at,
    ResourcesOffered: lambda data: data.offered_at,
    IntentDeclared: lambda data: data.declared_at,
    IntentObserved: lambda data: data.observed_at,
    EvictionCompleted: lambda data: data.completed_at,
    NodeLivenessChanged: lambda data: data.changed_at,
    NodeSchedulingChanged: lambda data: data.told_at,
}


def version_of(data: Any) -> Version:
    """What orders the events of one source."""
    return _VERSIONS[type(data)](data)


def time_of(data: Any) -> datetime:
    """The time that an event speaks of, by the clock of its sender."""
    return _TIMES[type(data)](data)


def is_newer(data: Any, version: Version, last: Version | None) -> bool:
    """Whether an event takes the place of the last one. Reports and rosters are judged by their sequence within a boot
    epoch, so that a clock that was set back does not hide what the agent measures; a new epoch by its time."""
    if last is None:
        return True
    if isinstance(data, UsageReported | PodsRostered):
        same_boot = version[0] == last[0]
        return bool((version[1], version[3]) > (last[1], last[3]) if same_boot else version[2] > last[2])
    return version > last
