"""The whole service: reports in, intents, records and effects out. One test on PostgreSQL and NATS, all others on their
twins in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

import anyio
import pytest
from ensurance_scene import described, reported
from tests.support.twin_servers import TwinServers

from slackwater.bus.port import Bus, Done, Received, Settlement
from slackwater.ensurance.service import EnsuranceService, build
from slackwater.ensurance.settings import EnsuranceSettings
from slackwater.ensurance.usecases.follow_rules import AT_ONCE, FollowRules
from slackwater.events.decision_recorded import DecisionRecorded
from slackwater.events.effect_measured import EffectMeasured
from slackwater.events.envelope import Event, Payload, event_of
from slackwater.events.eviction_completed import EvictionCompleted, EvictionOutcome
from slackwater.events.intent_declared import IntentDeclared
from slackwater.events.intent_observed import IntentObserved
from slackwater.events.lease_renewed import LeaseRenewed
from slackwater.events.node_scheduling_changed import NodeSchedulingChanged
from slackwater.events.usage_reported import UsageReported
from slackwater.events.waterline_crossed import crossing_of
from slackwater.model.devices import DiskUse
from slackwater.model.identifiers import partition_of
from slackwater.model.time import SystemClock
from slackwater.resources.kinds.avoidance_action import AVOIDANCE_ACTION
from slackwater.resources.kinds.node_qos import NODE_QOS
from slackwater.resources.kinds.pod_qos import POD_QOS
from slackwater.runtime.platform import Platform
from slackwater.store.engine import connect_database
from slackwater.waterline.nodeqos import NodeQos

P = TypeVar("P", bound=Payload)


@dataclass
class World:
    """One node's agent: what it publishes and receives."""

    bus: Bus
    platform: Platform
    heard: list[Event[Any]] = field(default_factory=list)
    sequence: int = 0
    stands_at: int = 0
    sampled_at: datetime = field(init=False)

    def __post_init__(self) -> None:
        self.sampled_at = self.platform.clock.now()

    @asynccontextmanager
    async def service(self, **settings: Any) -> AsyncIterator[EnsuranceService]:
        """A process with ensurance in it, until the block ends."""
        service, ready = build(EnsuranceSettings(**settings), self.platform), asyncio.Event()
        running = asyncio.create_task(service.run(ready.set))
        waiting = asyncio.create_task(ready.wait())
        await asyncio.wait({running, waiting}, return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        try:
            yield service
        finally:
            running.cancel()
            await asyncio.wait([running])

    async def report(self, pressure: float, **more: Any) -> Event[Any]:
        """A sample one second after the last one. Its clock runs ahead of ours a little; that is allowed."""
        self.sequence += 1
        self.sampled_at += timedelta(seconds=1)
        event = reported(self.sequence, at=self.sampled_at, pressure=pressure, **more)
        self.stands_at = await self.bus.publish(event)
        return event

    async def cross(self, pressure: float) -> Event[UsageReported]:
        """An urgent report, by its own way only."""
        self.sequence += 1
        self.sampled_at += timedelta(seconds=1)
        calm = reported(self.sequence, at=self.sampled_at, pressure=pressure)
        data = calm.data.model_copy(update={"trigger": "waterline"})
        event = event_of(data, source="agent", time=self.sampled_at)
        crossing = crossing_of(event)
        assert crossing is not None
        await self.bus.publish(crossing)
        return event

    async def confirm(self, intent: IntentDeclared) -> None:
        body = IntentObserved(
            node="n1",
            writer="ensurance",
            generation=intent.generation,
            boot_epoch="boot-1",
            received_at=self.sampled_at,
            observed_at=self.sampled_at,
        )
        await self.bus.publish(event_of(body, source="agent", time=self.sampled_at))

    async def hear(self, payload: type[P], fits: Callable[[P], bool] = lambda _: True) -> Event[P]:
        """The first matching event, received or still to come."""
        with anyio.fail_after(60):
            while True:
                for event in self.heard:
                    if isinstance(event.data, payload) and fits(event.data):
                        return event
                await asyncio.sleep(0.01)

    async def listen(self, batch: list[Received[Any]]) -> list[Settlement]:
        self.heard += [received.event for received in batch]
        return [Done() for _ in batch]


Servers = Callable[[], AbstractAsyncContextManager[tuple[Bus, Platform]]]
Opened = Callable[[], AbstractAsyncContextManager[World]]


@pytest.fixture(params=[pytest.param("twins", marks=pytest.mark.looptime)])
def servers(request: pytest.FixtureRequest, tmp_path: Path) -> Servers:
    """Opens the bus and the platform on the twins, or on real servers for the parameter "real"."""
    if request.param == "twins":
        return twins
    bus, fresh_database = request.getfixturevalue("bus"), request.getfixturevalue("fresh_database")

    @asynccontextmanager
    async def real() -> AsyncIterator[tuple[Bus, Platform]]:
        clock = SystemClock()
        database = connect_database((await fresh_database(["ensurance"]))["ensurance"], "ensurance", clock)
        yield bus, Platform(bus, clock, lambda _: database, tmp_path)
        await database.close()

    return real


@asynccontextmanager
async def twins() -> AsyncIterator[tuple[Bus, Platform]]:
    servers = TwinServers(["ensurance"])
    async with servers.bus("test") as bus:
        yield bus, servers.platform(bus, "ensurance")


@pytest.fixture
def opened(servers: Servers) -> Opened:
    """Opens the world within the test: only there is time virtual."""

    @asynccontextmanager
    async def open_world() -> AsyncIterator[World]:
        async with servers() as (bus, platform):
            world = World(bus, platform)
            async with (
                bus.replay(DecisionRecorded, world.listen, after_sequence=0),  # type: ignore[arg-type]  # any payload
                bus.replay(NodeSchedulingChanged, world.listen, after_sequence=0),  # type: ignore[arg-type]  # the same
                bus.replay(EffectMeasured, world.listen, after_sequence=0),  # type: ignore[arg-type]  # the same
                bus.replay(IntentDeclared, world.listen, after_sequence=0),  # type: ignore[arg-type]  # the same
            ):
                yield world

    return open_world


def limits(intent: IntentDeclared) -> dict[str, int]:
    return {throttle.pod_uid: throttle.cpu_limit_milli for throttle in intent.throttles}


@pytest.mark.parametrize("servers", ["real", pytest.param("twins", marks=pytest.mark.looptime)], indirect=True)
async def test_a_surge_lowers_the_limit_of_batch_and_the_effect_is_measured(opened: Opened) -> None:
    async with opened() as world, world.service() as service:
        await bus_knows(world)
        report = await world.report(0.2)
        intent = await world.hear(IntentDeclared, lambda i: bool(i.throttles))
        decision = await world.hear(DecisionRecorded)
        assert limits(intent.data) == {"b1": 725}
        assert decision.causedby == report.id
        assert intent.causedby == decision.id
        await world.confirm(intent.data)
        await until_confirmed(service)
        await world.report(0.02, batch={"b1": 725})
        effect = await world.hear(EffectMeasured)
        assert effect.data.decision_id == decision.data.record.id
        assert effect.data.relieved
        assert all(check.ok for check in await service.checks())


async def bus_knows(world: World) -> None:
    """The node is described and ensurance has answered with the first intent."""
    await world.bus.publish(described(at=world.sampled_at))
    await world.hear(IntentDeclared)


async def until_confirmed(service: EnsuranceService) -> None:
    """The confirmation travels on another consumer than the reports: wait until it has arrived."""
    with anyio.fail_after(60):
        while True:
            node = service.cache.node("n1")
            if node is not None and node.state.cycle.loop.pending_since is None:
                return
            await asyncio.sleep(0.01)


async def test_an_urgent_report_is_answered_once_although_it_comes_by_two_ways(opened: Opened) -> None:
    async with opened() as world, world.service() as service:
        await bus_knows(world)
        report = await world.cross(0.2)
        intent = await world.hear(IntentDeclared, lambda i: bool(i.throttles))
        assert limits(intent.data) == {"b1": 725}
        decision = await world.hear(DecisionRecorded)
        assert decision.causedby == report.id  # which is not published as a usage.reported yet
        await world.bus.publish(report)
        await world.confirm(intent.data)
        await until_confirmed(service)
        await world.report(0.02, batch={"b1": 725})
        await world.hear(EffectMeasured)
        assert len([event for event in world.heard if isinstance(event.data, DecisionRecorded)]) == 1


async def test_a_restarted_replica_handles_only_the_newest_urgent_report(opened: Opened) -> None:
    async with opened() as world:
        async with world.service():
            await bus_knows(world)
        for pressure in (0.5, 0.4, 0.2):
            newest = await world.cross(pressure)
        async with world.service():
            decision = await world.hear(DecisionRecorded)
            assert decision.causedby == newest.id


async def test_a_restart_keeps_the_throttle_and_later_gives_it_back(opened: Opened) -> None:
    async with opened() as world:
        async with world.service():
            await bus_knows(world)
            await world.report(0.2)
            before = await world.hear(IntentDeclared, lambda i: bool(i.throttles))
        world.heard.clear()
        async with world.service() as service:
            again = await world.hear(IntentDeclared, lambda i: bool(i.throttles))
            assert (again.data.generation, again.data.throttles) == (before.data.generation, before.data.throttles)
            assert again.data.declared_at > before.data.declared_at
            await service.changes[NODE_QOS].put(patient(service.documents.cluster))
            await world.confirm(await latest(world))
            await until_confirmed(service)
            for _ in range(3):
                await world.report(0.0, prod=500, batch={"b1": 725})
            free = await world.hear(IntentDeclared, lambda i: i.generation > before.data.generation and not i.throttles)
            assert free.causedby is not None


def patient(policy: NodeQos) -> NodeQos:
    """Without a cool-down: the test need not wait for it."""
    rule = policy.spec.rules[0].model_copy(update={"cool_down_seconds": 0.0})
    return policy.model_copy(update={"spec": policy.spec.model_copy(update={"rules": (rule,)})})


def is_followed(service: EnsuranceService) -> bool:
    """By every node, in the newest documents."""
    return all(node.policy_generation == service.cache.rules.revision for node in service.cache.nodes())


async def latest(world: World) -> IntentDeclared:
    changed = await world.hear(IntentDeclared, lambda i: i.generation >= 3)
    return changed.data


async def test_switching_to_observe_restores_every_pod_at_once(opened: Opened) -> None:
    async with opened() as world, world.service() as service:
        await bus_knows(world)
        await world.report(0.2)
        await world.hear(IntentDeclared, lambda i: bool(i.throttles))
        present = service.documents.cluster
        await service.changes[NODE_QOS].put(
            present.model_copy(update={"spec": present.spec.model_copy(update={"mode": "observe"})})
        )
        free = await world.hear(IntentDeclared, lambda i: i.generation == 3)
        assert free.data.throttles == ()
        record = await world.hear(DecisionRecorded, lambda d: d.record.kind == "restore")
        assert record.data.record.reason == "restore_mode_changed"


async def test_a_change_is_answered_before_every_node_has_followed_it(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened() as world, world.service() as service:
        nodes = {f"n{number}" for number in range(4 * AT_ONCE)}
        for node in nodes:
            await world.bus.publish(described(node, at=world.sampled_at))
            await world.hear(IntentDeclared, lambda i, node=node: i.node == node)  # type: ignore[misc]
        declared, declare = list[int](), FollowRules._carry_out

        async def counted(follow: FollowRules, behind: list[Any]) -> None:
            await declare(follow, behind)
            declared.append(len(behind))

        monkeypatch.setattr(FollowRules, "_carry_out", counted)
        change = await service.changes[NODE_QOS].put(patient(service.documents.cluster))
        assert (change.warning, sum(declared) <= AT_ONCE) == ("", True)
        for node in nodes:
            await world.hear(IntentDeclared, lambda i, node=node: (i.node, i.generation) == (node, 2))  # type: ignore[misc]


async def test_the_leases_of_a_partition_are_renewed_as_far_as_its_reports_are_read(opened: Opened) -> None:
    async with opened() as world:
        renewed: list[LeaseRenewed] = []

        async def hear(event: Event[LeaseRenewed]) -> None:
            renewed.append(event.data)

        async def read(position: int) -> LeaseRenewed:
            with anyio.fail_after(60):
                while not (renewed and renewed[-1].read_up_to >= position):
                    await asyncio.sleep(0.01)
            return renewed[-1]

        async with world.bus.subscribe(LeaseRenewed, hear, partition=partition_of("n1")):
            async with world.service(lease_seconds=3.0):
                await bus_knows(world)
                intent = await world.hear(IntentDeclared)
                for _ in range(2):
                    await world.report(0.0)
                    said = await read(world.stands_at)
                    assert (said.writer, said.epoch) == ("ensurance", intent.data.epoch)
                intents = len([event for event in world.heard if isinstance(event.data, IntentDeclared)])
                before = len(renewed)
                with anyio.fail_after(60):
                    while len(renewed) < before + 2:
                        await asyncio.sleep(0.01)
                assert len([event for event in world.heard if isinstance(event.data, IntentDeclared)]) == intents
            async with world.service(lease_seconds=3.0):
                again = await world.hear(IntentDeclared, lambda i: i.epoch > intent.data.epoch)
                assert again.data.generation == intent.data.generation, "the next owner declares its nodes anew"


async def test_an_eviction_is_asked_for_once_and_its_end_is_noted(opened: Opened) -> None:
    """From documents in PostgreSQL to the item in the intent, over a restart, to the completion."""
    async with opened() as world:
        async with world.service() as service:
            await bus_knows(world)
            await allow_evictions(service)
            await world.hear(IntentDeclared, lambda _: is_followed(service))
            await world.report(0.2)
            intent = await world.hear(IntentDeclared, lambda i: bool(i.evictions))
            (item,) = intent.data.evictions
            assert (item.pod_uid, item.grace_seconds) == ("b1", 5)
        async with world.service():
            again = await world.hear(IntentDeclared, lambda i: i.declared_at > intent.data.declared_at)
            assert again.data.evictions == (item,)
            await world.report(0.2)
            ended = EvictionCompleted(
                id=item.id,
                node="n1",
                pod_uid="b1",
                writer="ensurance",
                outcome=EvictionOutcome.TERMINATED,
                completed_at=world.sampled_at,
                decision_id=item.decision_id,
            )
            await world.bus.publish(event_of(ended, source="agent", time=world.sampled_at))
            free = await world.hear(IntentDeclared, lambda i: i.generation == intent.data.generation + 1)
            assert free.data.evictions == ()
            await world.report(0.02, batch={})
            effect = await world.hear(EffectMeasured)
            assert (effect.data.decision_id, effect.data.relieved) == (item.decision_id, True)
            await world.hear(DecisionRecorded)
            records = [event for event in world.heard if isinstance(event.data, DecisionRecorded)]
            assert len(records) == 1


async def test_a_surge_closes_the_node_calm_opens_it_and_so_does_the_end_of_its_policy(opened: Opened) -> None:
    """Over a restart: what was closed by one process is opened by the next."""
    async with opened() as world:
        async with world.service() as service:
            await bus_knows(world)
            await close_under_pressure(service)
            await world.report(0.2)
            closed = await world.hear(NodeSchedulingChanged)
            assert (closed.data.closed, closed.data.rules) == (True, ("gate.full",))
            record = await world.hear(DecisionRecorded, lambda d: d.record.id == closed.data.decision_id)
            assert (record.data.record.kind, closed.causedby) == ("scheduling", record.id)
        async with world.service() as service:
            for _ in range(4):
                await world.report(0.02)
            opened = await world.hear(NodeSchedulingChanged, lambda s: not s.closed)
            assert opened.data.reason == "scheduling_calm"
            await world.report(0.2)
            again = await world.hear(NodeSchedulingChanged, lambda s: s.closed and s.since > opened.data.since)
            assert again.data.decision_id != closed.data.decision_id
            await service.changes[NODE_QOS].delete("gate")
            gone = await world.hear(NodeSchedulingChanged, lambda s: s.since > again.data.since)
            assert (gone.data.closed, gone.data.reason) == (False, "scheduling_rules_gone")


async def test_a_busy_disk_travels_from_the_report_to_the_closing(opened: Opened) -> None:
    async with opened() as world, world.service() as service:
        await bus_knows(world)
        rule = {"name": "disk", "metricRule": {"name": "disk_usage_ratio", "value": "90%"}, "actionName": "close"}
        await service.changes[AVOIDANCE_ACTION].put(
            AVOIDANCE_ACTION.model_of("close").parse({"metadata": {"name": "close"}, "spec": {}})
        )
        document = {"metadata": {"name": "gate"}, "spec": {"rules": [rule]}}
        await service.changes[NODE_QOS].put(NODE_QOS.model_of("gate").parse(document))
        calm = reported(1, at=world.sampled_at + timedelta(seconds=1), pressure=0.0)
        disks = (DiskUse("vda", 0.1), DiskUse("vdb", 0.95))
        data = calm.data.model_copy(update={"disks": disks})
        await world.bus.publish(event_of(data, source="agent", time=calm.time))
        closed = await world.hear(NodeSchedulingChanged)
        assert closed.data.rules == ("gate.disk",)
        record = await world.hear(DecisionRecorded, lambda d: d.record.id == closed.data.decision_id)
        assert record.data.record.terms[0].note == "disk_usage_ratio 0.95 is above 0.9"


async def test_health_names_the_rules_that_act_on_no_pod(opened: Opened) -> None:
    async with opened() as world:
        rule = {"name": "full", "metricRule": {"name": "prod_cpu_pressure", "value": 0.1}, "actionName": "clsoe"}
        async with world.service() as service:
            await bus_knows(world)
            wanted = NODE_QOS.model_of("gate").parse({"metadata": {"name": "gate"}, "spec": {"rules": [rule]}})
            await service.changes[NODE_QOS].put(wanted)
            (said,) = [check.detail for check in await service.checks() if check.name == "ensurance-policies"]
            assert said == (
                "0 unusable; rule gate.full acts on no pod: there is no AvoidanceAction clsoe; apply it,"
                " or name another"
            )


async def close_under_pressure(service: EnsuranceService) -> None:
    rule = {"name": "full", "metricRule": {"name": "prod_cpu_pressure", "value": 0.1}, "actionName": "close"}
    for kind, name, spec in (
        (AVOIDANCE_ACTION, "close", {"coolDownSeconds": 0.05}),
        (NODE_QOS, "gate", {"rules": [{**rule, "restoreThreshold": 2}]}),
    ):
        await service.changes[kind].put(kind.model_of(name).parse({"metadata": {"name": name}, "spec": spec}))


async def allow_evictions(service: EnsuranceService) -> None:
    best_effort = {"scopeName": "QOSClass", "operator": "In", "values": ["BE"]}
    rule = {"name": "last", "metricRule": {"name": "prod_cpu_pressure", "value": 0.1}, "actionName": "evict"}
    for kind, name, spec in (
        (AVOIDANCE_ACTION, "evict", {"eviction": {"terminationGracePeriodSeconds": 5}, "disableScheduling": False}),
        (POD_QOS, "batch", {"scopeSelector": {"matchExpressions": [best_effort]}, "allowedActions": ["evict"]}),
        (NODE_QOS, "evicting", {"rules": [rule]}),
    ):
        wanted = kind.model_of(name).parse({"metadata": {"name": name}, "spec": spec})
        await service.changes[kind].put(wanted)
    present = service.documents.cluster
    spec = present.spec.model_copy(update={"mode": "evict", "rules": ()})
    await service.changes[NODE_QOS].put(present.model_copy(update={"spec": spec}))
