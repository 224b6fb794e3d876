"""The outgoing queue: facts first and in order until the bus has stored them, reports in a bounded buffer that drops
the oldest, urgent reports a second time beside both. A message that the bus can never take is dropped; one that it does
not take while it takes others does not block them.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from slackwater.agent.edge.urgent_reports import UrgentReports
from slackwater.bus.port import Bus
from slackwater.events.envelope import Event
from slackwater.events.usage_reported import UsageReported, is_disconnected
from slackwater.events.waterline_crossed import crossing_of
from slackwater.model.errors import InvalidInput, Unavailable
from slackwater.model.time import Clock
from slackwater.telemetry.logs import get_logger

_log = get_logger(__name__)
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 2.0
_DOUBTS = 3
"""So often a fact may fail while reports are stored, before the facts behind it are tried."""
AT_ONCE = 4
"""Reports that may wait for the broker's acknowledgement at a time: a slow line carries several per round trip."""


class Outgoing:
    """One queue per agent. It never blocks a sample or a write to the machine.

    Facts are published one after the other, before the newest report. Reports are too, unless several wait: then a few
    are under way at once, so that a slow line does not fall behind the samples. `stored` is called with the stream
    position of each report.
    """

    def __init__(
        self,
        bus: Bus,
        clock: Clock,
        capacity: int,
        lost: Callable[[], None] = lambda: None,
        stored: Callable[[int], None] = lambda _: None,
    ) -> None:
        self._lost = lost
        self._stored = stored
        self._bus = bus
        self._urgent = UrgentReports(bus)
        self._clock = clock
        self._capacity = capacity
        self._facts: OrderedDict[str, tuple[Event[Any], Callable[[], None] | None]] = OrderedDict()
        self._reports: OrderedDict[str, Event[UsageReported]] = OrderedDict()
        self._wake = asyncio.Event()
        self._fact_flight: asyncio.Task[None] | None = None
        self._report_flights: dict[str, asyncio.Task[None]] = {}
        self._pause = _FIRST_PAUSE
        self._failed: str | None = None
        self._doubts = 0
        self.dropped = 0
        self.away = False

    def __len__(self) -> int:
        return len(self._facts) + len(self._reports)

    def fact(self, key: str, event: Event[Any], stored: Callable[[], None] | None = None) -> None:
        """Publish until it is stored. A newer fact under the same key replaces one that still waits."""
        self._facts[key] = (event, stored)
        self._wake.set()

    def report(self, event: Event[UsageReported]) -> None:
        """Publish if the bus comes back soon enough; otherwise the oldest is dropped and counted. An urgent report is
        also published at once."""
        if (crossing := crossing_of(event)) is not None:
            self._urgent.send(crossing)
        if len(self._reports) >= self._capacity:
            self._drop(next(iter(self._reports)))
        self._reports[event.id] = event
        self._wake.set()

    def mark_disconnected(self) -> None:
        """From here on this node decides by itself. Reports from before that still wait are marked as well, so that a
        service which reads one when the bus is back does not act on it too."""
        for id_, event in list(self._reports.items()):
            self._reports[id_] = event.model_copy(update={"data": is_disconnected(event.data)})

    async def run(self) -> None:
        """Publish until cancelled."""
        try:
            while True:
                await self._wake.wait()
                self._wake.clear()
                if self.away:
                    await self._clock.sleep(self._pause)
                    self._pause = min(_LONGEST_PAUSE, self._pause * 2)
                self._begin()
        finally:
            flights = [*self._report_flights.values(), *([self._fact_flight] if self._fact_flight else [])]
            for flight in flights:
                flight.cancel()
            await asyncio.gather(*flights, return_exceptions=True)
            await self._urgent.close()
            self._report_flights.clear()
            self._fact_flight = None

    def _begin(self) -> None:
        """Publish what may be under way now and is not. While the bus is away one message at a time, and a report after
        a fact that failed: the bus may refuse that fact only."""
        in_doubt = self.away and self._failed is not None and bool(self._reports)
        if self._facts and self._fact_flight is None and not in_doubt:
            self._fact_flight = asyncio.create_task(self._carry(self._publish_fact))
        behind = len(self._reports) > 1 and not self.away
        if self._facts and not behind and not in_doubt:
            return
        for event in self._reports.values():
            if len(self._report_flights) >= (AT_ONCE if behind else 1):
                return
            if event.id not in self._report_flights:
                self._report_flights[event.id] = asyncio.create_task(self._carry(partial(self._publish_report, event)))

    async def _carry(self, work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
        except Unavailable as error:
            if not self.away:
                _log.warning("bus away", waiting=len(self), error=error.message)
                self._pause = _FIRST_PAUSE
            self.away = True
        else:
            if self.away:
                _log.info("bus back", dropped_reports=self.dropped)
            self.away = False
        finally:
            if len(self):
                self._wake.set()

    async def _publish_fact(self) -> None:
        key, (event, stored) = next(iter(self._facts.items()))
        try:
            await self._bus.publish(event)
        except Unavailable:
            self._failed = key
            raise
        except InvalidInput as error:
            _log.error("fact dropped", key=key, error=error.message)
            stored = None
        finally:
            self._fact_flight = None
        self._failed, self._doubts = None, 0
        if key in self._facts and self._facts[key][0] is event:  # not replaced while it was on its way
            del self._facts[key]
        if stored is not None:
            stored()

    async def _publish_report(self, event: Event[UsageReported]) -> None:
        try:
            position = await self._bus.publish(event)
        except Unavailable:
            self._failed = None  # so the bus takes nothing
            raise
        except InvalidInput as error:
            _log.error("report dropped", sequence=event.data.sequence, error=error.message)
            self._drop(event.id)
            return
        finally:
            self._report_flights.pop(event.id, None)
        self._stored(position)
        self._reports.pop(event.id, None)  # it may have been dropped meanwhile
        self._doubt()

    def _drop(self, event_id: str) -> None:
        if self._reports.pop(event_id, None) is not None:
            self.dropped += 1
            self._lost()

    def _doubt(self) -> None:
        """The bus has stored a report after it did not store the first fact: move that fact back after some tries."""
        failed, self._failed = self._failed, None
        if failed is None or failed not in self._facts:
            return
        self._doubts += 1
        if self._doubts >= _DOUBTS:
            _log.warning("fact not taken", key=failed, waiting=len(self._facts))
            self._facts.move_to_end(failed)
            self._doubts = 0

    async def flush(self) -> None:
        """Publish what waits, once; raises Unavailable when the bus is away."""
        while len(self):
            if self._facts:
                await self._publish_fact()
            else:
                await self._publish_report(next(iter(self._reports.values())))
