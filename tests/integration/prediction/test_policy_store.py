"""What prediction is promised by the store of policies, and that every replica follows a change without a restart."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import httpx2
import pytest
from policy_scene import document, model
from tests.support.postgres_server import FreshDatabase
from tests.support.postgres_twin.database import twin_of
from tests.support.resources import MemoryResourceStore
from tests.support.windows import described, window

from slackwater.bus.port import Bus, Done, Received, Settlement
from slackwater.events.peak_predicted import PeakPredicted
from slackwater.model.errors import Conflict
from slackwater.model.time import SystemClock
from slackwater.prediction.domain.policy import PoolPolicies
from slackwater.prediction.service import PredictionService, build
from slackwater.prediction.settings import PredictionSettings
from slackwater.resources.kinds.predict_policy import PREDICT_POLICY
from slackwater.resources.store import ResourceStore, StoredResource
from slackwater.runtime.http import build_app
from slackwater.runtime.platform import Platform
from slackwater.runtime.service import Check
from slackwater.runtime.settings import HttpSettings
from slackwater.store.engine import connect_database
from slackwater.store.resource_table import PostgresResourceStore

if TYPE_CHECKING:
    pass


@pytest.fixture(params=["memory", "twin", "postgres"])
async def store(request: pytest.FixtureRequest, fresh_database: FreshDatabase) -> AsyncIterator[ResourceStore]:
    if request.param == "memory":
        yield MemoryResourceStore()
        return
    if request.param == "twin":
        database = twin_of("prediction")
    else:
        database = connect_database((await fresh_database(["prediction"]))["prediction"], "prediction", SystemClock())
    yield PostgresResourceStore(database, PREDICT_POLICY)
    await database.close()


async def save(store: ResourceStore, *policies: StoredResource) -> None:
    async with store.changing() as transaction:
        for policy in policies:
            await transaction.save(policy)


async def test_documents_come_back_by_name_and_a_deleted_one_leaves_its_generation(store: ResourceStore) -> None:
    gold = StoredResource("gold", 1, {"spec": {"models": {"cpu": {"settings": {"knob": 0.25, "none": None}}}}})
    await save(store, gold, StoredResource("default", 1, {"spec": {}}))
    assert list(await store.read_all()) == [StoredResource("default", 1, {"spec": {}}), gold]
    await save(store, StoredResource("gold", 2, None))
    assert list(await store.read_all())[1] == StoredResource("gold", 2, None)


@pytest.mark.parametrize("generation", [1, 3])
async def test_only_the_next_generation_is_taken(store: ResourceStore, generation: int) -> None:
    await save(store, StoredResource("gold", 1, {}))
    with pytest.raises(Conflict, match="gold"):
        await save(store, StoredResource("new", 1, {}), StoredResource("gold", generation, {"a": 1}))
    assert list(await store.read_all()) == [StoredResource("gold", 1, {})]


async def test_of_two_changes_at_once_the_second_sees_the_first(store: ResourceStore) -> None:
    """Both look for the pool's document first; without a lock both would find none."""
    seen: list[list[str]] = []

    async def one(name: str) -> None:
        async with store.changing() as transaction:
            seen.append([row.name for row in await transaction.read_all()])
            await asyncio.sleep(0)
            await transaction.save(StoredResource(name, 1, {}))

    await asyncio.gather(one("a"), one("b"))
    assert sorted(map(len, seen)) == [0, 1]


@asynccontextmanager
async def replica(bus: Bus, address: str, state_dir: Path, **settings: Any) -> AsyncIterator[PredictionService]:
    """A process with prediction in it, until the block ends."""
    clock = SystemClock()
    database = connect_database(address, "prediction", clock)
    service = build(PredictionSettings(**settings), Platform(bus, clock, lambda _: database, state_dir))
    ready = asyncio.Event()
    running = asyncio.create_task(service.run(ready.set))
    waiting = asyncio.create_task(ready.wait())
    await asyncio.wait({running, waiting}, return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    try:
        yield service
    finally:
        running.cancel()
        await asyncio.wait([running])
        await database.close()


async def no_checks() -> list[Check]:
    return []


async def test_every_replica_follows_a_change_and_a_start_finds_it(
    bus: Bus, fresh_database: FreshDatabase, tmp_path: Path
) -> None:
    address = (await fresh_database(["prediction"]))["prediction"]
    async with replica(bus, address, tmp_path) as here, replica(bus, address, tmp_path) as there:
        heard: list[PoolPolicies] = []
        there.policies.on_policies(heard.append)
        app = build_app(here.routers(), no_checks, HttpSettings.local())
        transport = httpx2.ASGITransport(app=app)
        async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            answer = await client.put("/v1/predictpolicies/gold", json=document("gold", violationRate=0.01))
            assert answer.status_code == 201, answer.text
        assert here.policies.policies.of("gold").cpu.settings == {"violation_rate": 0.01}
        with anyio.fail_after(30):
            while "gold" not in there.policies.policies.pools:
                await asyncio.sleep(0.01)
        assert heard[-1] == here.policies.policies
    async with replica(bus, address, tmp_path) as later:
        assert later.policies.policies == heard[-1]


class Predictions:
    """What was published of the node, in order."""

    def __init__(self) -> None:
        self.heard: list[PeakPredicted] = []

    async def __call__(self, batch: list[Received[PeakPredicted]]) -> list[Settlement]:
        self.heard += [received.event.data for received in batch]
        return [Done()] * len(batch)

    async def until(self, model: str) -> PeakPredicted:
        """The first one by this model."""
        with anyio.fail_after(30):
            while True:
                for one in self.heard:
                    if one.calibrations["cpu"].model == model:
                        return one
                await asyncio.sleep(0.01)


async def test_the_predictions_of_a_pool_change_with_its_policy_while_they_go_on(
    bus: Bus, fresh_database: FreshDatabase, tmp_path: Path
) -> None:
    address, predictions = (await fresh_database(["prediction"]))["prediction"], Predictions()
    quick = {"check_seconds": 0.05, "reporting_seconds": 0.05}
    async with (
        replica(bus, address, tmp_path, **quick) as service,
        bus.replay(PeakPredicted, predictions, after_sequence=0),
        httpx2.AsyncClient(
            transport=httpx2.ASGITransport(app=build_app(service.routers(), no_checks, HttpSettings.local())),
            base_url="http://127.0.0.1",
        ) as client,
    ):
        await bus.publish(described("n1"))
        for number in (1, 2):
            await bus.publish(window("n1", number, {"a": 500}))
        before = await predictions.until("workload-profile")
        assert (before.calibrations["cpu"].policy, before.calibrations["cpu"].generation) == ("default", 1)
        wanted = document("ours", nodePool="default", models={"cpu": model("borg-default", overcommit=2)})
        answer = await client.put("/v1/predictpolicies/ours", json=wanted)
        assert answer.status_code == 201, answer.text
        await bus.publish(window("n1", 3, {"a": 500}))
        await bus.publish(window("n1", 4, {"a": 500}))
        after = await predictions.until("borg-default")
    assert (after.calibrations["cpu"].policy, after.calibrations["cpu"].generation) == ("ours", 1)
    assert after.calibrations["memory"].model == "workload-profile"
    assert after.prod_peak.cpu_milli < before.prod_peak.cpu_milli
