"""The last readings of what can be used up, with their metrics and a log line at each change of level."""

from __future__ import annotations

from collections.abc import Sequence

from slackwater.model.limited_resource import FillLevel, LimitedResource, fullest_first
from slackwater.telemetry.logs import get_logger
from slackwater.telemetry.metrics import Meters

log = get_logger(__name__)


class LimitedMetrics:
    """`kind` is a slackwater.model.limited_resource.Limited, `resource` a stream, store, service or folder."""

    def __init__(self, meters: Meters) -> None:
        self.used = meters.gauge(
            "slackwater_limited_resource_used_ratio",
            "Used share of a limited resource.",
            ["kind", "resource"],
            look="See slackwater_limited_resources.",
        )
        self.state = meters.gauge(
            "slackwater_limited_resources",
            "1 if a limited resource is nearly_full or full, 0 if not.",
            ["kind", "resource", "state"],
            look="1: see /readyz?verbose for figures and remedy.",
        )


class LimitedReadings:
    """The readings of one process, by source; those of a source replace its earlier ones."""

    def __init__(self, meters: Meters) -> None:
        self._metrics = LimitedMetrics(meters)
        self._by_source: dict[str, Sequence[LimitedResource]] = {}
        self._levels: dict[str, FillLevel] = {}

    def newest(self) -> Sequence[LimitedResource]:
        """Returns all readings, the fullest first."""
        return fullest_first(reading for readings in self._by_source.values() for reading in readings)

    def note(self, source: str, readings: Sequence[LimitedResource]) -> None:
        """Replace the readings of a source. What it does not name any more is unknown: its series end."""
        for gone in {(r.kind, r.name) for r in self._by_source.get(source, ())} - {(r.kind, r.name) for r in readings}:
            self._remove(*gone)
        self._by_source[source] = readings
        for reading in readings:
            self._show(reading)

    def _show(self, reading: LimitedResource) -> None:
        kind, name, level = reading.kind.value, reading.name, reading.level
        self._metrics.used.labels(kind, name).set(reading.used_ratio)
        for state in _STATES:
            self._metrics.state.labels(kind, name, _label(state)).set(level is state)
        before = self._levels.get(reading.label, FillLevel.FINE)
        self._levels[reading.label] = level
        if level is not before:
            write = log.info if level is FillLevel.FINE else log.warning
            write("fill level changed", resource=reading.label, fill=level.value, used=reading.figures)

    def _remove(self, kind: str, name: str) -> None:
        self._metrics.used.remove(kind, name)
        for state in _STATES:
            self._metrics.state.remove(kind, name, _label(state))


_STATES = (FillLevel.NEARLY_FULL, FillLevel.FULL)


def _label(level: FillLevel) -> str:
    return level.value.replace(" ", "_")
