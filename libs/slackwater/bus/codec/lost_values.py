"""Counts and names what unknown values of newer versions have lost (`slackwater.events.codec.unknown_values`)."""

from __future__ import annotations

from functools import cache
from typing import Final

from slackwater.events.codec.unknown_values import Lost
from slackwater.telemetry.logs import get_logger
from slackwater.telemetry.metrics import Meters, process_meters

log = get_logger(__name__)

MOST_NAMED: Final = 100
"""Values of one process that are logged: each once."""


class LostValues:
    """The metric, and the values that were logged."""

    def __init__(self, meters: Meters) -> None:
        self._lost = meters.counter(
            "slackwater_bus_unknown_values_total",
            "Values that this version does not know, left out of an event with their item.",
            ["event", "reason"],
            look="Any growth: a newer version publishes; upgrade this one.",
        )
        self._named: set[tuple[str, str, str]] = set()

    def note(self, type_: str, lost: Lost, subject: str = "") -> None:
        """Count what a message has lost, and log each value once."""
        for unknown, count in lost.items():
            self._lost.labels(type_, unknown.field).inc(count)
            name = (type_, unknown.field, unknown.value)
            if name not in self._named and len(self._named) < MOST_NAMED:
                self._named.add(name)
                log.warning(
                    "unknown value left out", type=type_, field=unknown.field, value=unknown.value, subject=subject
                )


@cache
def lost_values() -> LostValues:
    """Of this process."""
    return LostValues(process_meters())
