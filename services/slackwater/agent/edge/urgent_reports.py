"""Publishes urgent reports at once, beside the outgoing queue. One that fails is not kept.

The same report is in the outgoing queue and is delivered from there, so nothing is lost; and while a node is above its
waterline the next sample is urgent too.
"""

from __future__ import annotations

import asyncio

from slackwater.bus.port import Bus
from slackwater.events.envelope import Event
from slackwater.events.waterline_crossed import WaterlineCrossed
from slackwater.model.errors import InvalidInput, Unavailable
from slackwater.telemetry.logs import get_logger

_log = get_logger(__name__)
AT_ONCE = 4
"""Reports that may wait for the broker's acknowledgement; of those beyond, only the newest follows."""


class UrgentReports:
    """Of one agent. Never blocks; holds at most AT_ONCE reports under way and one that waits."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._flights: set[asyncio.Task[None]] = set()
        self._next: Event[WaterlineCrossed] | None = None

    def send(self, crossing: Event[WaterlineCrossed]) -> None:
        """Publish now, or replace the waiting one where too many are under way."""
        if len(self._flights) >= AT_ONCE:
            self._next = crossing
            return
        flight = asyncio.create_task(self._carry(crossing))
        self._flights.add(flight)
        flight.add_done_callback(self._landed)

    async def close(self) -> None:
        """Cancel everything: ensurance reads the same report from the queue of all reports."""
        self._next = None
        flights = list(self._flights)
        for flight in flights:
            flight.cancel()
        await asyncio.gather(*flights, return_exceptions=True)

    async def _carry(self, crossing: Event[WaterlineCrossed]) -> None:
        try:
            await self._bus.publish(crossing)
        except (InvalidInput, Unavailable) as error:
            _log.debug("urgent report not told", error=error.message)

    def _landed(self, flight: asyncio.Task[None]) -> None:
        self._flights.discard(flight)
        if not flight.cancelled() and (error := flight.exception()) is not None:
            _log.error("defect of the urgent way", error=repr(error))
        if self._next is not None and not flight.cancelled():
            crossing, self._next = self._next, None
            self.send(crossing)
