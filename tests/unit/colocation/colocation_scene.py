"""The use cases of colocation over a store in memory, with a clock that the test moves."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

from colocation_memory import MemoryColocationStore, OneStrategy
from tests.support.clock import FakeClock
from tests.support.windows import FIRST_NUMBER, START, described, window

from slackwater.bus.port import Received
from slackwater.colocation.edge.events import ColocationEvents
from slackwater.colocation.usecases.recompute_offer import Offering
from slackwater.decisions.record import DecisionRecord
from slackwater.events.decision_recorded import DecisionRecorded
from slackwater.events.envelope import Event, event_of
from slackwater.events.node_liveness_changed import NodeLivenessChanged
from slackwater.events.node_reserved import NodeReserved, ReservedRoom
from slackwater.events.peak_predicted import PeakPredicted, PodPeak
from slackwater.events.resources_offered import ResourcesOffered
from slackwater.events.usage_windowed import UsageWindowed
from slackwater.model.identifiers import new_id
from slackwater.model.nodes import Liveness
from slackwater.model.quantities import Resources
from slackwater.model.tiers import QoSClass, Tier
from slackwater.offers.strategy import Strategy


class Colocation:
    """The use cases over a store in memory and a clock that the test moves."""

    def __init__(self, strategy: Strategy | None = None) -> None:
        self.store = MemoryColocationStore()
        self.clock = FakeClock(START + timedelta(seconds=60))
        self.offering = Offering(self.store, OneStrategy(strategy or Strategy()), self.clock)
        self.events = ColocationEvents(self.offering)

    def offers(self) -> list[ResourcesOffered]:
        return [event.data for event in self.store.outbox if isinstance(event.data, ResourcesOffered)]

    def records(self) -> list[DecisionRecord]:
        return [event.data.record for event in self.store.outbox if isinstance(event.data, DecisionRecorded)]

    async def describe(self, **facts: Any) -> None:
        await self.events.on_described([received(described("n", **facts))])

    async def measure(self, number: int, cpu: int, *, system: int | None = 300, gaps: int = 0) -> None:
        """The window ends now: the clock follows it."""
        event = window("n", number, {"p": cpu}, system=system)
        data = event.data.model_copy(update={"gaps": gaps})
        await self.take(event_of(data, source="ingestion", time=event.time, id=event.id))

    async def take(self, measured: Event[UsageWindowed]) -> None:
        """A window that ends now."""
        end = measured.data.window_start + timedelta(seconds=measured.data.window_seconds)
        await self.clock.advance((end - self.clock.now()).total_seconds())
        await self.events.on_usage([received(measured)])

    def follow(self, strategy: Strategy, *sources: str) -> None:
        """From the next event on."""
        self.offering = replace(self.offering, strategies=OneStrategy(strategy, sources or ("settings",)))
        self.events = ColocationEvents(self.offering)

    async def predict(self, number: int, cpu: int, *, cold: bool = False) -> None:
        await self.events.on_peaks([received(predicted(number, cpu, cold, self.clock))])

    async def reserve(self, generation: int, *rooms: tuple[Tier, int], seconds: float | None = None) -> None:
        """What reservations keep on the node from now on: milli-cores by tier, for `seconds` or until released."""
        now = self.clock.now()
        until = None if seconds is None else now + timedelta(seconds=seconds)
        kept = tuple(ReservedRoom(f"r-{tier}", tier, QoSClass.LS, Resources(cpu, 0), until) for tier, cpu in rooms)
        data = NodeReserved(node="n", generation=generation, rooms=kept, reserved_at=now)
        await self.events.on_reserved([received(event_of(data, source="migration", time=now))])

    async def live(self, liveness: Liveness) -> None:
        now = self.clock.now()
        data = NodeLivenessChanged(node="n", liveness=liveness, previous=None, last_report_at=now, changed_at=now)
        await self.events.on_liveness([received(event_of(data, source="ingestion", time=now))])


def received(event: Event[Any]) -> Received[Any]:
    return Received(event, 1, 1, "n")


def predicted(number: int, cpu: int, cold: bool, clock: FakeClock) -> Event[PeakPredicted]:
    peak = Resources(cpu, 2**30)
    data = PeakPredicted(
        node="n",
        predicted_at=clock.now(),
        window_number=FIRST_NUMBER + number,
        window_seconds=60,
        model="histogram",
        samples=100,
        cold_start_share=float(cold),
        node_peak=peak,
        system_peak=peak,
        tier_peaks={"prod": peak},
        prod_peak=peak,
        prod_reclaimable=Resources(),
        pods=(PodPeak(uid="p", workload="w", tier="prod", peak=peak, cold_start=cold),),
        decision_id=new_id(),
    )
    return event_of(data, source="prediction", time=clock.now())
