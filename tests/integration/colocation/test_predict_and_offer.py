"""Prediction and colocation: windows in, peaks and offers out, across restarts. One test on real servers, all on their
twins in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.support.twin_servers import TwinServers
from tests.support.windows import FIRST_NUMBER, START, described, window

from slackwater.bus.connect.nats_bus import NatsBus
from slackwater.bus.port import Done, Received, Settlement
from slackwater.colocation import service as colocation
from slackwater.colocation.settings import ColocationSettings
from slackwater.decisions.record import DecisionRecord
from slackwater.events.decision_recorded import DecisionRecorded
from slackwater.events.envelope import Event
from slackwater.events.resources_offered import ResourcesOffered
from slackwater.model.errors import Unavailable
from slackwater.model.identifiers import partition_of
from slackwater.model.time import Clock
from slackwater.prediction import service as prediction
from slackwater.prediction.adapters.predictors.registry import model_of
from slackwater.prediction.adapters.snapshots import PostgresSnapshots
from slackwater.prediction.domain.snapshot import Snapshot, decode, encode
from slackwater.prediction.domain.state import PartitionState
from slackwater.prediction.settings import PredictionSettings
from slackwater.prediction.usecases.fold_windows import node_window
from slackwater.resources.kinds.predict_policy import PREDICT_POLICY
from slackwater.resources.store import StoredResource
from slackwater.runtime.platform import Platform, new_member
from slackwater.runtime.service import Service
from slackwater.store.engine import PostgresDatabase, connect_database
from slackwater.store.port import Database
from slackwater.store.resource_table import PostgresResourceStore

NOWHERE = Path("/nowhere")
WARM = {"cold_hours": 1, "young_hours": 0}
PREDICTION = PredictionSettings(
    cpu_settings=WARM, memory_settings=WARM, snapshot_seconds=0.2, check_seconds=0.05, reporting_seconds=0.02
)
"""Less than half a check between reports: the clock stands still after the last window, so a node
published at that very time for the window before would never be published again."""
COLOCATION = ColocationSettings(cpu_reclaim_threshold_percent=80)


class NodeTime:
    """Wall time stands where the test's windows are; waiting takes the loop's time."""

    def __init__(self) -> None:
        self.minutes = 0

    def now(self) -> Any:
        return START + timedelta(minutes=self.minutes, seconds=5)

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class Mortal:
    """A database that its process loses between two transactions, as with kill -9: nothing is saved on the way out."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.mortals = [self]
        self.dead = False

    def die(self) -> None:
        for mortal in self.mortals:
            mortal.dead = True

    def unit_of_work(self) -> Any:
        if self.dead:
            raise Unavailable("killed")
        return self._database.unit_of_work()

    async def ping(self) -> bool:
        return await self._database.ping()

    def relay(self, publish: Any) -> Any:
        return self._database.relay(publish)

    def leases(self, member: str) -> Any:
        return self._database.leases(member)

    def fenced(self, fence: Any) -> Any:
        fenced = Mortal(self._database.fenced(fence))
        self.mortals.append(fenced)
        return fenced

    def reserved(self) -> Any:
        return self

    async def close(self) -> None:
        await self._database.close()


Connect = Callable[[str, Clock], PostgresDatabase]


class Stack:
    """Both services; each can be run, killed and run again. `connect` connects a process to the database of one."""

    def __init__(self, bus: NatsBus, connect: Connect) -> None:
        self.bus = bus
        self.clock = NodeTime()
        self.connect = connect
        self.records: dict[str, DecisionRecord] = {}
        self.copies = 0
        self.offers: list[ResourcesOffered] = []

    @asynccontextmanager
    async def running(self, module: Any, settings: Any) -> AsyncIterator[Callable[[], None]]:
        """Yields what makes the end of the context a kill."""
        name = module.__name__.split(".")[1]
        database = Mortal(self.connect(name, self.clock))
        service: Service = module.build(
            settings, Platform(self.bus, self.clock, lambda _: database, NOWHERE, new_member("stack"))
        )
        ready = asyncio.Event()
        task = asyncio.create_task(service.run(ready.set))
        try:
            await asyncio.wait([task, asyncio.create_task(ready.wait())], return_when=asyncio.FIRST_COMPLETED)
            assert all(check.ok for check in await service.checks())
            yield database.die
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await database.close()

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[None]:
        async def on_records(batch: Any) -> list[Settlement]:
            for received in batch:
                self._take(received)
            return [Done()] * len(batch)

        async def on_offer(event: Event[ResourcesOffered]) -> None:
            self.offers.append(event.data)

        async with (
            self.bus.replay(DecisionRecorded, on_records, after_sequence=0),
            self.bus.watch(ResourcesOffered, on_offer),
        ):
            yield

    def _take(self, received: Received[DecisionRecorded]) -> None:
        record = received.event.data.record
        self.copies += record.id in self.records
        self.records[record.id] = record

    def predicted_from(self) -> set[object]:
        """Numbers of the windows, counted from START, that were the newest of a prediction."""
        cpu = (record for record in self.records.values() if record.subject == "prod-cpu-peak")
        return {int(record.inputs[0].value or 0) - FIRST_NUMBER for record in cpu}

    async def publish(self, numbers: range, cpu: int) -> None:
        for number in numbers:
            self.clock.minutes = number + 1
            await self.bus.publish(window("n", number, {"p": cpu, "q": 300}))


async def eventually(condition: Callable[[], bool]) -> None:
    """The test's own timeout is the limit."""
    while not condition():
        await asyncio.sleep(0.01)


Servers = Callable[[], AbstractAsyncContextManager[tuple[NatsBus, Connect]]]
Opened = Callable[[], AbstractAsyncContextManager[Stack]]
SERVICES = ("prediction", "colocation")


@pytest.fixture(params=[pytest.param("twins", marks=pytest.mark.looptime)])
def servers(request: pytest.FixtureRequest) -> Servers:
    """Opens the bus and the databases on the twins, or on real servers for the parameter "real"."""
    if request.param == "twins":
        return twins
    bus, fresh_database = request.getfixturevalue("bus"), request.getfixturevalue("fresh_database")

    @asynccontextmanager
    async def real() -> AsyncIterator[tuple[NatsBus, Connect]]:
        addresses = await fresh_database(SERVICES)
        yield bus, lambda service, clock: connect_database(addresses[service], service, clock)

    return real


@asynccontextmanager
async def twins() -> AsyncIterator[tuple[NatsBus, Connect]]:
    servers = TwinServers(SERVICES)
    async with servers.bus("test") as bus:
        yield bus, servers.database


@pytest.fixture
def opened(servers: Servers) -> Opened:
    """Opens the stack within the test: only there is time virtual."""

    @asynccontextmanager
    async def open_stack() -> AsyncIterator[Stack]:
        async with servers() as (bus, connect):
            made = Stack(bus, connect)
            async with made.listening():
                yield made

    return open_stack


@pytest.mark.parametrize("servers", ["real", pytest.param("twins", marks=pytest.mark.looptime)], indirect=True)
async def test_windows_become_peaks_and_offers_that_explain_themselves(opened: Opened) -> None:
    async with opened() as stack:
        async with stack.running(prediction, PREDICTION), stack.running(colocation, COLOCATION):
            await stack.bus.publish(described("n"))
            for number in range(8):
                await stack.publish(range(number, number + 1), 500)
                if number:  # a window is folded when the stream has moved on
                    await eventually(lambda n=number: n - 1 in stack.predicted_from())  # type: ignore[misc] # bound now
            await eventually(lambda: bool(stack.offers) and stack.offers[-1].batch.cpu_milli > 4000)
            await stack.publish(range(8, 9), 5000)
            await eventually(lambda: stack.offers[-1].batch.cpu_milli < 1200)
            offer = stack.offers[-1]
            await eventually(lambda: set(offer.decision_ids.values()) <= set(stack.records))
        record = stack.records[offer.decision_ids["batch-cpu"]]
        assert sum(term.value for term in record.terms) == record.result == offer.batch.cpu_milli
        assert record.trigger_event_id is not None
        assert stack.copies == 0


async def test_a_killed_prediction_ends_bit_for_bit_like_an_undisturbed_one(opened: Opened) -> None:
    async with opened() as stack:
        for life, numbers in enumerate((range(5), range(5, 9), range(9, 12), range(12, 14))):
            async with stack.running(prediction, PREDICTION) as kill:
                await stack.publish(numbers, 500 + 100 * life)
                await eventually(lambda last=numbers.stop: last - 2 in stack.predicted_from())  # type: ignore[misc] # bound now
                if life < 3:
                    kill()
        kept = await _newest_snapshot(stack)
        expected = PartitionState(PREDICTION.policy(model_of).policies, model_of)
        for life, numbers in enumerate((range(5), range(5, 9), range(9, 12), range(12, 14))):
            for number in numbers:
                expected.apply_window(node_window(window("n", number, {"p": 500 + 100 * life, "q": 300})))
        living, _ = decode(kept, PREDICTION.policy(model_of).policies, model_of)
        assert without_traces(living) == without_traces(expected)
        assert stack.copies == 0


def without_traces(state: PartitionState) -> str:
    """A state to the last bit, but for the trace that each run gives its windows."""
    for node in state.nodes.values():
        node.taken = node.taken._replace(traceparent=None)
        node.folded = node.folded._replace(traceparent=None) if node.folded else None
    return encode(state, 0).checksum


async def test_a_policy_that_is_changed_is_followed_without_a_restart_and_keeps_what_was_learned(
    opened: Opened,
) -> None:
    async with opened() as stack, stack.running(prediction, PREDICTION):
        await stack.bus.publish(described("n"))
        await stack.publish(range(4), 500)
        await eventually(lambda: 2 in stack.predicted_from())
        before = _newest_cpu(stack).result
        await _apply(
            stack, "default", {"models": {"cpu": {"name": "workload-profile", "settings": WARM | {"knob": 1.0}}}}
        )
        await eventually(lambda: _policy_of(_newest_cpu(stack)) == "policy default generation 2")
        assert before < _newest_cpu(stack).result < 4000  # not cold: what was learned is still known
        await _apply(stack, "safe", {"nodePool": "default", "models": {"cpu": {"name": "borg-default"}}})
        await eventually(lambda: _policy_of(_newest_cpu(stack)) == "policy safe generation 1")
        assert _newest_cpu(stack).result == 3637  # 4000 / 1.1


def _newest_cpu(stack: Stack) -> DecisionRecord:
    return [record for record in stack.records.values() if record.subject == "prod-cpu-peak"][-1]


def _policy_of(record: DecisionRecord) -> str:
    return next(one.source for one in record.inputs if one.name == "model")


async def _apply(stack: Stack, name: str, spec: dict[str, Any]) -> None:
    """As the next generation, from another process."""
    database = stack.connect("prediction", stack.clock)
    try:
        store = PostgresResourceStore(database, PREDICT_POLICY)
        known = {row.name: row.generation for row in await store.read_all()}
        generation = known.get(name, 0) + 1
        metadata = {"name": name, "generation": generation}
        document = {"apiVersion": "slackwater.io/v1alpha1", "kind": "PredictPolicy", "metadata": metadata, "spec": spec}
        async with store.changing() as transaction:
            await transaction.save(StoredResource(name, generation, document))
    finally:
        await database.close()


async def _newest_snapshot(stack: Stack) -> Snapshot:
    database = stack.connect("prediction", stack.clock)
    try:
        return (await PostgresSnapshots().of_partition(database, partition_of("n")))[0]
    finally:
        await database.close()
