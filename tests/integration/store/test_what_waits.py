"""How long the oldest event of a type waits in the outbox, by partition."""

from __future__ import annotations

import asyncio

from probe_service import NOW, Broker, liveness, probe, running

from slackwater.events.envelope import event_of
from slackwater.events.intent_declared import IntentDeclared
from slackwater.events.node_liveness_changed import NodeLivenessChanged
from slackwater.model.identifiers import partition_of
from slackwater.store.backlog import oldest_waiting
from slackwater.store.engine import PostgresDatabase

__all__ = ["probe"]


async def test_each_type_waits_by_partition_until_the_bus_has_it(probe: PostgresDatabase) -> None:
    assert await oldest_waiting(probe, IntentDeclared) == {}
    nodes = [f"n{number}" for number in range(12)]
    async with probe.unit_of_work() as unit:
        await unit.publish(liveness("elsewhere"))
        for node in nodes:
            intent = IntentDeclared(node=node, writer="probe", generation=1, declared_at=NOW, lease_seconds=1)
            await unit.publish(event_of(intent, source="tests", time=NOW))
    first = await oldest_waiting(probe, IntentDeclared)
    assert first.keys() == {partition_of(node) for node in nodes}
    assert (await oldest_waiting(probe, NodeLivenessChanged)).keys() == {partition_of("elsewhere")}
    again = await oldest_waiting(probe, IntentDeclared)
    assert all(0 <= first[partition] < again[partition] for partition in again)
    async with running(probe.relay(Broker().carry)):
        while await oldest_waiting(probe, IntentDeclared):
            await asyncio.sleep(0.01)


async def test_what_the_bus_will_never_take_does_not_wait(probe: PostgresDatabase) -> None:
    broker = Broker()
    broker.refused_nodes.add("a")
    async with probe.unit_of_work() as unit:
        await unit.publish(liveness("a"))
    async with running(probe.relay(broker.carry)):
        while await oldest_waiting(probe, NodeLivenessChanged):
            await asyncio.sleep(0.01)
