"""Two replicas of prediction, colocation and ensurance: they share, one is killed in the middle of its work, and the
end is that of an undisturbed run: nothing lost, nothing twice, the same numbers. In the simulated world; real processes
are killed in tests/integration/sharding (ingestion) and tests/faults."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Protocol

import pytest
from colocation_memory import MemoryColocationStore, OneStrategy
from ensurance_scene import Scene, described, reported
from prediction_memory import MemoryPredictionStore
from simulated_replicas import SimulatedReplicas, simulate, until
from tests.support.clock import EPOCH, FakeClock
from tests.support.windows import FIRST_NUMBER, START, event_id, window
from tests.support.windows import described as described_node

from slackwater.bus.connect.nats_bus import NatsBus
from slackwater.bus.port import Done, Received, Settlement
from slackwater.colocation.edge.events import ColocationEvents
from slackwater.colocation.settings import ColocationSettings
from slackwater.colocation.usecases.recompute_offer import Offering
from slackwater.ensurance.settings import EnsuranceSettings
from slackwater.events.decision_recorded import DecisionRecorded
from slackwater.events.envelope import Event, Payload, event_of
from slackwater.events.intent_declared import IntentDeclared
from slackwater.events.intent_observed import IntentObserved
from slackwater.events.peak_predicted import PeakPredicted, PodPeak
from slackwater.events.resources_offered import ResourcesOffered
from slackwater.model.identifiers import PARTITIONS, partition_of
from slackwater.model.quantities import Resources
from slackwater.model.time import SystemClock
from slackwater.prediction.adapters.predictors.registry import model_of
from slackwater.prediction.domain.snapshot import Snapshot, decode, encode
from slackwater.prediction.domain.state import PartitionState
from slackwater.prediction.settings import PredictionSettings
from slackwater.prediction.usecases.describe_node import describe_node
from slackwater.prediction.usecases.fold_windows import fold_windows
from slackwater.prediction.usecases.partition_store import LivingState
from slackwater.prediction.usecases.publish_predictions import publish_predictions

NODES = [f"node-{number}" for number in range(24)]
ROUNDS = 6
SEED = 1
"""Of the order of tasks; 1 and 2 were tried with each service."""
FATAL = 3
"""In this round one replica dies, with its messages in hand."""


class PublishedEvents:
    """Every event of some types, each time it was published."""

    def __init__(self) -> None:
        self.events: list[Event[Any]] = []
        self._up_to: dict[str, int] = {}

    async def __call__(self, batch: list[Received[Any]]) -> list[Settlement]:
        self.events += [received.event for received in batch]
        for received in batch:
            stream = received.event.data.STREAM
            self._up_to[stream] = max(self._up_to.get(stream, 0), received.stream_sequence)
        return [Done()] * len(batch)

    async def everything(self, bus: NatsBus, payload: type[Payload]) -> list[Event[Any]]:
        """All events of a type that are in its stream by now: we hear them a little later than they are there."""
        end = (await bus.mark([payload])).sequence
        async with asyncio.timeout(30):
            while self._up_to.get(payload.STREAM, 0) < end:
                await asyncio.sleep(0.02)
        return self.of(payload)

    def of(self, payload: type[Payload]) -> list[Event[Any]]:
        return [event for event in self.events if isinstance(event.data, payload)]


class Case(Protocol):
    """One service: what it is given in each round, when that is handled, and what must have come of it all."""

    service: str
    settings: Mapping[str, Any]
    hears: Sequence[type[Payload]]

    async def prepare(self, world: SimulatedReplicas) -> None:
        """Before the first round."""
        ...

    async def feed(self, world: SimulatedReplicas, number: int) -> None:
        """One round; may wait for what the round needs in between."""
        ...

    async def handled(self, world: SimulatedReplicas, heard: PublishedEvents, number: int) -> None:
        """Wait until the round has had its effects."""
        ...

    async def judge(self, world: SimulatedReplicas, heard: PublishedEvents) -> None:
        """All replicas have ended in order."""
        ...


def without_times(event: Event[Any]) -> Any:
    """What an event says, without when it was said."""
    said = event.data.model_dump(mode="json")
    record = said.get("record", said)
    for name in ("predicted_at", "decided_at", "offered_at", "trace_id", "replay", "inputs", "terms"):
        record.pop(name, None)
    return said


def assert_same(found: Sequence[Event[Any]], expected: Sequence[Event[Any]]) -> None:
    """The same events under the same ids, each once, with the same content."""
    assert max(Counter(event.id for event in found).values()) == 1
    assert {event.id: without_times(event) for event in found} == {e.id: without_times(e) for e in expected}


def usage_of(node: str, number: int) -> dict[str, int]:
    """Its prod pods with their milli-cores in a round."""
    return {f"{node}-p": 500 + 40 * number, f"{node}-q": 300 + 10 * (int(node.split("-")[1]) % 7)}


class FedByWindows:
    """What a service gets that reads the windows of described nodes."""

    async def prepare(self, world: SimulatedReplicas) -> None:
        for node in NODES:
            await world.bus.publish(described_node(node))
        await world.settled()

    async def feed(self, world: SimulatedReplicas, number: int) -> None:
        for node in NODES:
            await world.bus.publish(window(node, number, usage_of(node, number)))


class Predicting(FedByWindows):
    """A window is folded when the stream has moved on: what is told after a round is about the one before it."""

    service = "prediction"
    settings: Mapping[str, Any] = {
        "cpu_settings": {"cold_hours": 1},
        "memory_settings": {"cold_hours": 1},
        "check_seconds": 0.1,
        "reporting_seconds": 0.1,
        "snapshot_seconds": 1,
    }
    hears: Sequence[type[Payload]] = (DecisionRecorded, PeakPredicted)

    async def handled(self, world: SimulatedReplicas, heard: PublishedEvents, number: int) -> None:
        def predicted() -> bool:
            told = {(event.data.node, event.data.window_number) for event in heard.of(PeakPredicted)}
            return number == 0 or told >= {(node, FIRST_NUMBER + number - 1) for node in NODES}

        await until(predicted)
        await world.settled()

    async def judge(self, world: SimulatedReplicas, heard: PublishedEvents) -> None:
        policy = _predicting().policy(model_of)
        expected: dict[str, Event[Any]] = {}
        newest = sorted(world.rows("snapshots"), key=lambda row: row["id"])
        kept = {
            row["partition"]: Snapshot(row["version"], row["position"], row["checksum"], row["body"]) for row in newest
        }
        assert kept.keys() == {partition_of(node) for node in NODES}
        for partition, snapshot in kept.items():
            mine = [node for node in NODES if partition_of(node) == partition]
            store = MemoryPredictionStore()
            living = LivingState(store, policy, partition)
            for node in mine:
                await describe_node(living, described_node(node).data)
            windows = [window(node, number, usage_of(node, number)) for number in range(ROUNDS) for node in mine]
            await fold_windows(living, list(enumerate(windows, start=1)))
            found, _ = decode(snapshot, policy.policies, model_of)
            assert without_traces(found) == without_traces(living.models)  # to the last bit
            await publish_predictions(living, SystemClock())
            expected |= {event.data.node: event for event in store.outbox if isinstance(event.data, PeakPredicted)}
        told = heard.of(PeakPredicted) + heard.of(DecisionRecorded)
        assert max(Counter(event.id for event in told).values()) == 1
        last = {event.data.node: event for event in heard.of(PeakPredicted)}
        assert last.keys() == set(NODES)
        for node, event in last.items():
            assert event.data.prod_peak == expected[node].data.prod_peak
            assert event.data.prod_reclaimable == expected[node].data.prod_reclaimable
            assert event.data.pods == expected[node].data.pods


def _predicting() -> PredictionSettings:
    return PredictionSettings(cpu_settings={"cold_hours": 1}, memory_settings={"cold_hours": 1})


def without_traces(state: PartitionState) -> str:
    """A state to the last bit, but for the trace that each run gives its windows."""
    for node in state.nodes.values():
        node.taken = node.taken._replace(traceparent=None)
        node.folded = node.folded._replace(traceparent=None) if node.folded else None
    return encode(state, 0).checksum


def peaks(node: str, number: int) -> Event[PeakPredicted]:
    """Of every pod, an eighth above its usage; cold in the first round."""
    amounts = {uid: Resources(cpu * 9 // 8, 2**30) for uid, cpu in usage_of(node, number).items()}
    whole = Resources(sum(one.cpu_milli for one in amounts.values()), 2**31)
    pods = tuple(PodPeak(uid=uid, workload=f"w-{uid}", tier="prod", peak=peak, cold_start=number == 0)
                 for uid, peak in amounts.items())  # fmt: skip
    data = PeakPredicted(node=node, predicted_at=START, window_number=number, window_seconds=60, model="m", samples=9,
                         cold_start_share=0, node_peak=whole, system_peak=Resources(), tier_peaks={"prod": whole},
                         prod_peak=whole, prod_reclaimable=Resources(), pods=pods, decision_id="d")  # fmt: skip
    return event_of(data, source="prediction", time=START, id=event_id("peak.predicted", node, number))


class Offered(FedByWindows):
    service = "colocation"
    settings: Mapping[str, Any] = {
        "decay_from_seconds": 1e9,
        "decay_to_seconds": 2e9,
        "prediction_max_age_seconds": 1e9,
        "age_check_seconds": 1000,
    }
    hears: Sequence[type[Payload]] = (DecisionRecorded, ResourcesOffered)

    async def handled(self, world: SimulatedReplicas, heard: PublishedEvents, number: int) -> None:
        """What changes an offer comes from two streams: one after the other, so that the order is known."""
        await world.settled()
        for node in NODES:
            await world.bus.publish(peaks(node, number))
        await world.settled()

    async def judge(self, world: SimulatedReplicas, heard: PublishedEvents) -> None:
        settings = ColocationSettings(**self.settings)
        store = MemoryColocationStore()
        events = ColocationEvents(Offering(store, OneStrategy(settings.strategy(), ("cluster@1",)), SystemClock()))
        for node in NODES:
            await events.on_described([Received(described_node(node), 0, 1, node)])
        for number in range(ROUNDS):
            for node in NODES:
                await events.on_usage([Received(window(node, number, usage_of(node, number)), 0, 1, node)])
                await events.on_peaks([Received(peaks(node, number), 0, 1, node)])
        assert len(store.outbox) > 3 * len(NODES)
        assert_same(heard.of(ResourcesOffered) + heard.of(DecisionRecorded), store.outbox)


class Guarding:
    service = "ensurance"
    settings: Mapping[str, Any] = {"max_report_age_seconds": 3600, "lease_seconds": 600}
    hears: Sequence[type[Payload]] = (DecisionRecorded, IntentDeclared)

    def __init__(self) -> None:
        self._start = EPOCH

    def _at(self, number: int) -> datetime:
        return self._start + timedelta(seconds=5 * number)

    def _report(self, node: str, number: int) -> Event[Any]:
        batch = {f"{node}-b": 1000 - 100 * number, f"{node}-c": 400}
        return reported(number + 1, at=self._at(number), pressure=0.2, batch=batch, node=node)

    def _observed(self, node: str, generation: int, number: int) -> Event[Any]:
        at = self._at(number) + timedelta(seconds=1)
        return event_of(
            IntentObserved(node=node, writer="ensurance", generation=generation, boot_epoch="boot-1",
                           received_at=at, observed_at=at), source="agent", time=at)  # fmt: skip

    async def prepare(self, world: SimulatedReplicas) -> None:
        self._start = world.clock.now() - timedelta(minutes=10)
        for node in NODES:
            await world.bus.publish(described(node, at=self._start))
        await world.settled()

    async def feed(self, world: SimulatedReplicas, number: int) -> None:
        for node in NODES:
            await world.bus.publish(self._report(node, number))

    async def handled(self, world: SimulatedReplicas, heard: PublishedEvents, number: int) -> None:
        await world.settled()
        declared = await heard.everything(world.bus, IntentDeclared)
        for node, (generation, _) in _newest(declared).items():
            await world.bus.publish(self._observed(node, generation, number))
        await world.settled()

    async def judge(self, world: SimulatedReplicas, heard: PublishedEvents) -> None:
        settings = EnsuranceSettings(**self.settings)
        oracle = Scene(clock=FakeClock(self._start), settings=settings)
        await oracle.open(*NODES)
        for number in range(ROUNDS):
            for node in NODES:
                await oracle.guard(self._report(node, number))
            for node, (generation, _) in _newest(oracle.published(IntentDeclared)).items():
                await oracle.observe(self._observed(node, generation, number))
        by_report = Counter(event.causedby for event in heard.of(DecisionRecorded))
        assert max(by_report.values()) == 1
        assert _actions(heard.of(DecisionRecorded)) == _actions(oracle.published(DecisionRecorded))
        found, expected = heard.of(IntentDeclared), oracle.published(IntentDeclared)
        assert _contents(found) == _contents(expected)  # one content per generation, and the same ones
        assert _newest(found) == _newest(expected)
        assert any(limits for _, _, limits in _contents(found))  # restored later: they relieve nothing in this world


def _limits(intent: IntentDeclared) -> tuple[tuple[str, int], ...]:
    return tuple((throttle.pod_uid, throttle.cpu_limit_milli) for throttle in intent.throttles)


def _newest(events: Sequence[Event[Any]]) -> dict[str, tuple[int, Any]]:
    """The last generation of each node's intent, and its limits."""
    found: dict[str, tuple[int, Any]] = {}
    for event in events:
        known = found.get(event.data.node)
        if known is None or known[0] <= event.data.generation:
            found[event.data.node] = (event.data.generation, _limits(event.data))
    return found


def _contents(events: Sequence[Event[Any]]) -> set[tuple[str, int, Any]]:
    return {(event.data.node, event.data.generation, _limits(event.data)) for event in events}


def _actions(events: Sequence[Event[Any]]) -> Counter[Any]:
    """What was decided, how often."""
    records = [event.data.record for event in events]
    return Counter((one.node, one.kind, one.reason, one.result, one.remaining) for one in records)


@asynccontextmanager
async def listening(bus: NatsBus, payloads: Sequence[type[Payload]]) -> AsyncIterator[PublishedEvents]:
    heard = PublishedEvents()
    async with AsyncExitStack() as stack:
        for payload in payloads:
            await stack.enter_async_context(bus.replay(payload, heard, after_sequence=0))  # type: ignore[arg-type]  # takes any payload
        yield heard


@pytest.mark.parametrize("case", [Predicting, Offered, Guarding], ids=lambda case: case.service)
def test_two_replicas_share_and_the_end_is_that_of_an_undisturbed_run(case: type[Case]) -> None:
    simulate(case.service, case.settings, SEED, partial(a_kill_disturbs_nothing, case()))


async def a_kill_disturbs_nothing(case: Case, world: SimulatedReplicas) -> None:
    async with listening(world.bus, case.hears) as heard:
        world.start(0)
        world.start(1)
        await world.has_shares(4, 4)
        await case.prepare(world)
        for number in range(ROUNDS):
            await case.feed(world, number)
            if number == FATAL:
                world.kill(0)
                await world.has_shares(PARTITIONS)
            await case.handled(world, heard, number)
        await world.stop(1)
        assert world.shares() == []  # handed back in good order
        for payload in case.hears:
            await heard.everything(world.bus, payload)
        await case.judge(world, heard)
