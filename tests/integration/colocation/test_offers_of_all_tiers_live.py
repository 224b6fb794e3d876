"""Mid, batch and NUMA zones for a node whose annotation asks for mid; damage is healed. On the twins of PostgreSQL and
nats-server: test_predict_and_offer is the test of both services on real ones."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import text
from tests.support.twin_servers import TwinServers
from tests.support.windows import FIRST_NUMBER, START, described, window

from slackwater.bus.connect.nats_bus import NatsBus
from slackwater.colocation import service as colocation
from slackwater.colocation.settings import ColocationSettings
from slackwater.events.envelope import Event, event_of
from slackwater.events.node_described import NodeDescribed
from slackwater.events.peak_predicted import PeakPredicted, PodPeak
from slackwater.events.resources_offered import ResourcesOffered
from slackwater.model.quantities import Resources
from slackwater.runtime.platform import Platform, new_member

NOWHERE = Path("/nowhere")
SETTINGS = ColocationSettings(rise_windows=1, full_pass_seconds=0.2, age_check_seconds=0.2)
MID = '{"midReclaimMode": "dynamic", "midCPUThresholdPercent": 10}'


class NodeTime:
    """Wall time stands where the test's windows are; waiting takes virtual time."""

    def __init__(self) -> None:
        self.minutes = 0

    def now(self) -> datetime:
        return START + timedelta(minutes=self.minutes, seconds=5)

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class Node:
    """Colocation, one node that is described and measured, and what is offered of it."""

    def __init__(self, bus: NatsBus, servers: TwinServers) -> None:
        self.bus = bus
        self.clock = NodeTime()
        self.offers: list[ResourcesOffered] = []
        self.database = servers.database("colocation", self.clock)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async def on_offer(event: Event[ResourcesOffered]) -> None:
            self.offers.append(event.data)

        platform = Platform(self.bus, self.clock, lambda _: self.database, NOWHERE, new_member("node"))
        service, ready = colocation.build(SETTINGS, platform), asyncio.Event()
        task = asyncio.create_task(service.run(ready.set))
        try:
            await asyncio.wait([task, asyncio.create_task(ready.wait())], return_when=asyncio.FIRST_COMPLETED)
            async with self.bus.watch(ResourcesOffered, on_offer):
                yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await self.database.close()

    async def describe(self, **annotations: str) -> None:
        data = described("n", zones=2).data
        data = NodeDescribed(
            facts=replace(data.facts, annotations=annotations), boot_epoch="b", described_at=self.clock.now()
        )
        await self.bus.publish(event_of(data, source="agent", time=self.clock.now()))

    async def damage(self) -> None:
        """Its offer of batch CPU is far too high from now on, and no event was published."""
        async with self.database.unit_of_work() as unit:
            (stored,) = (await unit.connection.execute(text("SELECT facts FROM nodes"))).one()
            facts = json.loads(stored) if isinstance(stored, str) else dict(stored)
            facts["cpu"]["published"] = 7999
            change = text("UPDATE nodes SET facts = CAST(:facts AS jsonb)")
            await unit.connection.execute(change, {"facts": json.dumps(facts)})

    async def minute(self, number: int) -> None:
        self.clock.minutes = number + 1
        await self.bus.publish(window("n", number, {"p": 500}))
        await self.bus.publish(predicted(number, self.clock.now()))


def predicted(number: int, now: datetime) -> Event[PeakPredicted]:
    peak = Resources(700, 2**30)
    data = PeakPredicted(
        node="n",
        predicted_at=now,
        window_number=FIRST_NUMBER + number,
        window_seconds=60,
        model="m",
        samples=1,
        cold_start_share=0.0,
        node_peak=peak,
        system_peak=peak,
        tier_peaks={},
        prod_peak=peak,
        prod_reclaimable=Resources(),
        pods=(PodPeak("p", "w", "prod", peak, False),),
        decision_id="d",
    )
    return event_of(data, source="prediction", time=now)


async def eventually(condition: Callable[[], bool]) -> None:
    """The test's own timeout is the limit."""
    while not condition():
        await asyncio.sleep(0.01)


@pytest.mark.looptime
async def test_a_node_that_asks_for_mid_is_offered_mid_batch_and_zones_and_what_is_damaged_heals() -> None:
    servers = TwinServers(["colocation"])
    async with servers.bus("test") as bus:
        node = Node(bus, servers)
        async with node.running():
            await node.describe(**{"slackwater.io/colocation-strategy": MID})
            for number in range(3):
                await node.minute(number)
            await eventually(lambda: bool(node.offers) and node.offers[-1].mid.cpu_milli == 800)
            whole = 4800 - 300 - 700 - 800
            await eventually(lambda: node.offers[-1].batch.cpu_milli == whole)
            offer = node.offers[-1]
            assert [(zone.name, zone.batch.cpu_milli) for zone in offer.zones] == [
                ("node0", whole // 2),
                ("node1", whole // 2),
            ]
            assert set(offer.decision_ids) == {"batch-cpu", "batch-memory", "mid-cpu", "mid-memory"}
            assert offer.strategies[-1] == "node-annotation"
            assert offer.degraded is None

            while node.offers[-1].reason != "offer_healed":  # an event under way may be faster than the pass
                await node.damage()
                await asyncio.sleep(0.3)
            assert node.offers[-1].batch == offer.batch

            await node.describe()  # it asks for nothing any more
            await eventually(lambda: node.offers[-1].mid == Resources())
            await eventually(lambda: set(node.offers[-1].decision_ids) == {"batch-cpu", "batch-memory"})
