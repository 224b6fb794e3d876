"""Documents and the nodes that follow them, as colocation stores them; every replica follows a change at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import httpx2
import pytest
from colocation_memory import MemoryColocationStore, followers_of
from strategy_scene import OWN, document
from tests.support.postgres_server import FreshDatabase
from tests.support.postgres_twin.database import twin_of
from tests.support.resources import MemoryResourceStore
from tests.support.windows import START, described, window

from slackwater.bus.port import Bus, Done, Received, Settlement
from slackwater.colocation.adapters.postgres import PostgresColocationStore
from slackwater.colocation.adapters.postgres_following import PostgresFollowerStore
from slackwater.colocation.ports import ColocationStore, Followers, FollowerStore
from slackwater.colocation.service import ColocationService, build
from slackwater.colocation.settings import ColocationSettings
from slackwater.events.envelope import Event, event_of
from slackwater.events.node_described import NodeDescribed
from slackwater.events.resources_offered import ResourcesOffered
from slackwater.events.strategy_checked import StrategyChecked
from slackwater.model.identifiers import new_id
from slackwater.model.quantities import Resources
from slackwater.model.time import SystemClock
from slackwater.offers.node import InputSource, NodeState
from slackwater.offers.strategy_layers import NodeOverrides
from slackwater.resources.kinds.colocation_strategy import COLOCATION_STRATEGY
from slackwater.resources.store import StoredResource
from slackwater.runtime.http import build_app
from slackwater.runtime.platform import Platform
from slackwater.runtime.service import Check
from slackwater.runtime.settings import HttpSettings
from slackwater.store.engine import connect_database
from slackwater.store.resource_table import PostgresResourceStore

if TYPE_CHECKING:
    pass


@dataclass(frozen=True)
class Stores:
    """Of one schema."""

    nodes: ColocationStore
    followers: FollowerStore


@pytest.fixture(params=["memory", "twin", "postgres"])
async def stores(request: pytest.FixtureRequest, fresh_database: FreshDatabase) -> AsyncIterator[Stores]:
    if request.param == "memory":
        nodes = MemoryColocationStore()
        yield Stores(nodes, followers_of(nodes))
        return
    if request.param == "twin":
        database = twin_of("colocation")
    else:
        database = connect_database((await fresh_database(["colocation"]))["colocation"], "colocation", SystemClock())
    yield Stores(PostgresColocationStore(database), PostgresFollowerStore(database))
    await database.close()


async def save(store: ColocationStore, *states: NodeState) -> None:
    async with store.begin() as transaction:
        await transaction.expect_nodes([state.node for state in states])
        for state in states:
            await transaction.load(state.node)
            await transaction.save(state)


def node(name: str, *followed: str, problem: str = "") -> NodeState:
    return NodeState(name, described_by=InputSource("e", START), strategies=followed, strategy_problem=problem)


async def test_followers_are_counted_by_document_whatever_its_generation(stores: Stores) -> None:
    assert await stores.followers.followers(2) == {}
    await save(
        stores.nodes,
        node("a", "cluster@1", "pool/x@1"),
        node("b", "cluster@2", "pool/x@2", "node-label", problem="no ratio"),
        node("c", "cluster@2", problem="no JSON"),
        node("d", "cluster@2", problem="bad"),
        NodeState("unheard"),
    )
    found = await stores.followers.followers(2)
    assert found["cluster"] == Followers(4, 3, (("b", "no ratio"), ("c", "no JSON")))
    assert found["pool/x"] == Followers(2, 1, (("b", "no ratio"),))
    assert found.keys() == {"cluster", "pool/x", "node-label"}


async def test_nodes_are_read_page_by_page_as_they_were_saved(stores: Stores) -> None:
    words = NodeOverrides({"disk": "ssd"}, {OWN: "{"})
    good = NodeOverrides({}, {OWN: "{}"})
    full = replace(node("b", "cluster@1", problem="p"), pool="gold", words=words, good_words=good)
    await save(stores.nodes, node("a"), full, node("c"), NodeState("unheard"))
    assert [state.node for state in await stores.followers.page("", 2)] == ["a", "b"]
    assert list(await stores.followers.page("a", 1)) == [full]
    assert list(await stores.followers.page("unheard", 9)) == []
    following = await stores.followers.following("", 2)
    assert [state.node for state in following] == ["a", "b"]
    assert following[1] == replace(full, described_by=None)
    assert [state.node for state in await stores.followers.following("b", 9)] == ["c"]


async def test_a_published_problem_is_stored_with_its_event_or_not_at_all(stores: Stores) -> None:
    told = StrategyChecked(document="gold", usable=False, problem="p", followed=(), checked_at=START)
    event = event_of(told, source="colocation", time=START, id=new_id())

    async def fail() -> None:
        async with stores.followers.telling() as transaction:
            await transaction.publish_problem("gold", "p", event)
            raise ArithmeticError

    async with stores.followers.telling() as transaction:
        assert await transaction.published_problems() == {}
        await transaction.publish_problem("gold", "p", event)
        await transaction.publish_problem("other", "q", event.model_copy(update={"id": new_id()}))
    async with stores.followers.telling() as transaction:
        assert await transaction.published_problems() == {"gold": "p", "other": "q"}
        await transaction.publish_problem("gold", "", event.model_copy(update={"id": new_id()}))
    async with stores.followers.telling() as transaction:
        assert await transaction.published_problems() == {"other": "q"}
    if isinstance(stores.followers, PostgresFollowerStore):
        with pytest.raises(ArithmeticError):
            await fail()
        async with stores.followers.telling() as transaction:
            assert await transaction.published_problems() == {"other": "q"}


@asynccontextmanager
async def replica(bus: Bus, address: str, state_dir: Path, name: str, **settings: Any) -> AsyncIterator[Any]:
    """A process with colocation in it, until the block ends, and a client of its API."""
    clock = SystemClock()
    database = connect_database(address, "colocation", clock)
    service = build(
        ColocationSettings(**settings), Platform(bus, clock, lambda _: database, state_dir, member=f"{name}/{new_id()}")
    )
    ready = asyncio.Event()
    running = asyncio.create_task(service.run(ready.set))
    waiting = asyncio.create_task(ready.wait())
    await asyncio.wait({running, waiting}, return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    app = build_app(service.routers(), no_checks, HttpSettings.local())
    transport = httpx2.ASGITransport(app=app)
    try:
        async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            yield service, client
    finally:
        running.cancel()
        await asyncio.wait([running])
        await database.close()


async def no_checks() -> list[Check]:
    return []


class NewestEvents:
    """Newest of each node or document, in order of arrival."""

    def __init__(self) -> None:
        self.all: list[Any] = []

    async def __call__(self, batch: list[Received[Any]]) -> list[Settlement]:
        self.all += [received.event.data for received in batch]
        return [Done()] * len(batch)

    def newest(self, node: str) -> Any:
        return next((one for one in reversed(self.all) if one.node == node), None)


async def eventually(holds: Any) -> None:
    with anyio.fail_after(60):
        while not holds():
            await asyncio.sleep(0.02)


def told(name: str, number: int = 0, **facts: Any) -> Event[NodeDescribed]:
    event = described(name, number=number)
    return event.model_copy(
        update={
            "id": new_id(),
            "data": event.data.model_copy(update={"facts": replace(event.data.facts, **facts)}),
        }
    )


LONG = {"decay_from_seconds": 1e9, "decay_to_seconds": 2e9, "rise_windows": 1}
"""The windows of these tests are of another year."""
NODES = [f"n{number:02}" for number in range(24)]


async def test_whichever_replica_takes_a_change_every_node_follows_it(
    bus: Bus, fresh_database: FreshDatabase, tmp_path: Path
) -> None:
    address = (await fresh_database(["colocation"]))["colocation"]
    offers, checks = NewestEvents(), NewestEvents()
    async with (
        replica(bus, address, tmp_path, "here", **LONG) as (here, client),
        replica(bus, address, tmp_path, "there", **LONG) as (there, _),
        bus.replay(ResourcesOffered, offers, after_sequence=0),
        bus.replay(StrategyChecked, checks, after_sequence=0),
    ):
        await eventually(lambda: all(owned(one) for one in (here, there)))
        for name in NODES:
            await bus.publish(told(name, pool="gold" if name < "n12" else "default"))
            await bus.publish(window(name, 0, {"p": 500}))
        await eventually(lambda: all(offers.newest(name) for name in NODES))
        assert {offers.newest(name).strategies for name in NODES} == {("cluster@1",)}

        tried = await client.put(
            "/v1/colocationstrategies/gold?dryRun=true&limit=3", json=document("gold", cpuReclaimThresholdPercent=30)
        )
        found = tried.json()["offers"]
        assert ([pool["changed"] for pool in found["pools"]], found["left_out"]) == ([0, 12], 21)
        made = await client.put("/v1/colocationstrategies/gold", json=document("gold", cpuReclaimThresholdPercent=30))
        assert made.status_code == 201, made.text
        await eventually(lambda: all(offers.newest(name).batch.cpu_milli == 100 for name in NODES[:12]))
        assert offers.newest("n00").strategies == ("cluster@1", "pool/gold@1")
        assert {offers.newest(name).strategies for name in NODES[12:]} == {("cluster@1",)}
        after = {one["node"]: one["after"]["batch"] for one in found["nodes"]}
        assert {name: Resources(**batch) for name, batch in after.items()} == {
            name: offers.newest(name).batch for name in after
        }
        with anyio.fail_after(60):
            while (await client.get("/v1/colocationstrategies/gold")).json()["status"]["nodes"] < 12:
                await asyncio.sleep(0.02)

        await bus.publish(told("n20", 1, annotations={OWN: '{"riseWindows": 0}'}))
        await eventually(lambda: checks.newest("n20") is not None)
        assert "riseWindows: 0 is not allowed" in checks.newest("n20").problem
        status = (await client.get("/v1/colocationstrategies/default")).json()["status"]
        assert [one["node"] for one in status["problems"]] == ["n20"]

        gone = await client.delete("/v1/colocationstrategies/gold")
        assert gone.status_code == 200
        await eventually(lambda: all(offers.newest(name).strategies == ("cluster@1",) for name in NODES))
        assert {offers.newest(name).batch.cpu_milli for name in NODES} == {2500}


def owned(service: ColocationService) -> bool:
    standing = service.standing()
    return (
        standing is not None and standing.members == 2 and any(one.owner == standing.member for one in standing.leases)
    )


async def test_a_bad_document_is_published_once_and_a_starting_replica_catches_up(
    bus: Bus, fresh_database: FreshDatabase, tmp_path: Path
) -> None:
    address = (await fresh_database(["colocation"]))["colocation"]
    offers, checks = NewestEvents(), NewestEvents()
    async with (
        bus.replay(ResourcesOffered, offers, after_sequence=0),
        bus.replay(StrategyChecked, checks, after_sequence=0),
    ):
        async with replica(bus, address, tmp_path, "first", **LONG) as (service, _):
            await bus.publish(told("a"))
            await bus.publish(window("a", 0, {"p": 500}))
            await eventually(lambda: offers.newest("a") is not None)
            await write(address, "default", 2, document("default", cpuReclaimThresholdPercent=-1))
            await eventually(lambda: checks.all)
            assert service.strategies.of(NodeState("a")).sources == ("cluster@1",)
        assert [(one.document, one.generation, one.followed) for one in checks.all] == [("default", 2, ("cluster@1",))]
        await write(address, "default", 3, document("default", enable=False))
        async with replica(bus, address, tmp_path, "second", **LONG):
            await eventually(lambda: offers.newest("a").batch == Resources())
            await eventually(lambda: len(checks.all) == 2)
        assert (checks.all[-1].usable, checks.all[-1].generation) == (True, 3)


async def write(address: str, name: str, generation: int, body: dict[str, Any]) -> None:
    """Past every check, as another version of Slackwater would."""
    database = connect_database(address, "colocation", SystemClock())
    async with PostgresResourceStore(database, COLOCATION_STRATEGY).changing() as transaction:
        await transaction.save(StoredResource(name, generation, body))
    await database.close()


async def test_the_two_stores_of_documents_agree(fresh_database: FreshDatabase) -> None:
    """What tests of use cases stand on; the promises themselves are tested with PredictPolicy."""
    database = connect_database((await fresh_database(["colocation"]))["colocation"], "colocation", SystemClock())
    for store in (PostgresResourceStore(database, COLOCATION_STRATEGY), MemoryResourceStore()):
        async with store.changing() as transaction:
            await transaction.save(StoredResource("gold", 1, document("gold", riseWindows=3)))
        assert list(await store.read_all()) == [StoredResource("gold", 1, document("gold", riseWindows=3))]
    await database.close()
