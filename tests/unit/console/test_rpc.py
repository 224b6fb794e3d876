"""The gRPC service as a client sees it: real sockets, bus and read model in memory."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import anyio
import grpc
import grpc.aio
import pytest
from rpc_world import PATIENCE_SECONDS, Client, RpcWorld, Served
from tests.support.reports import described

from slackwater.console.domain.views import OfferView
from slackwater.model.quantities import Resources
from slackwater.v1 import colocation_service_pb2 as api
from slackwater.v1 import node_pb2

NOW = datetime(2026, 1, 5, 10, tzinfo=UTC)


async def fleet(world: RpcWorld, names: str = "abcde") -> None:
    for index, name in enumerate(names):
        facts = replace(described(name, NOW).facts, pool=("red", "blue")[index % 2], labels={"zone": str(index // 2)})
        await world.model.save_facts([(facts, "boot", NOW)])
        await world.model.save_liveness([(name, ("fresh", "stale", "lost")[index % 3], NOW)])
    await world.model.save_offers(
        [OfferView("e", "a", NOW, 7, Resources(1500, 2**30), "usage is old", {"batch-cpu": "d-1"})]
    )


async def refusal(call: Any) -> tuple[grpc.StatusCode, dict[str, str | bytes], str]:
    """Code, trailing metadata and message of a call that fails."""
    with anyio.fail_after(PATIENCE_SECONDS), pytest.raises(grpc.aio.AioRpcError) as caught:
        await (call.read() if hasattr(call, "read") else call)
    return caught.value.code(), dict(caught.value.trailing_metadata() or ()), caught.value.details() or ""


async def test_one_node_is_whole() -> None:
    world = RpcWorld()
    await fleet(world)
    async with world.served() as served:
        node = (await served.service.GetNode(api.GetNodeRequest(name="a"))).node
    assert (node.name, node.pool, node.liveness) == ("a", "red", node_pb2.LIVENESS_FRESH)
    assert (node.offer.generation, node.offer.batch.cpu_milli) == (7, 1500)
    assert node.offer.decision_ids["batch-cpu"] == "d-1"
    assert node.offer.degraded_because == "usage is old"
    assert not node.HasField("usage")


async def test_pages_have_every_node_once_in_order() -> None:
    world = RpcWorld()
    await fleet(world)
    async with world.served() as served:
        token, pages = "", []
        while not pages or token:
            answer = await served.service.ListNodes(api.ListNodesRequest(page_size=2, page_token=token))
            pages.append([node.name for node in answer.nodes])
            token = answer.next_page_token
    assert pages == [["a", "b"], ["c", "d"], ["e"]]


@pytest.mark.parametrize(
    ("wanted", "names"),
    [
        ({"pool": "blue"}, "bd"),
        ({"liveness": [node_pb2.LIVENESS_FRESH, node_pb2.LIVENESS_LOST]}, "acd"),
        ({"labels": {"zone": "1"}}, "cd"),
        ({"pool": "blue", "labels": {"zone": "1"}}, "d"),
        ({"pool": "green"}, ""),
    ],
)
async def test_filters_must_all_pass(wanted: dict[str, Any], names: str) -> None:
    world = RpcWorld()
    await fleet(world)
    async with world.served() as served:
        answer = await served.service.ListNodes(api.ListNodesRequest(**wanted))
    assert "".join(node.name for node in answer.nodes) == names


@pytest.mark.parametrize(
    ("method", "request_", "field"),
    [
        ("GetNode", api.GetNodeRequest(), "name"),
        ("GetNode", api.GetNodeRequest(name="edge\0-7"), "name"),
        ("ListNodes", api.ListNodesRequest(page_size=-1), "page_size"),
        ("ListNodes", api.ListNodesRequest(page_size=1001), "page_size"),
        ("ListNodes", api.ListNodesRequest(page_token="x"), "page_token"),
        ("ListNodes", api.ListNodesRequest(liveness=[0]), "liveness"),
        ("ListNodes", api.ListNodesRequest(liveness=[99]), "liveness"),  # type: ignore[list-item]  # an open enum
        ("WatchOffers", api.WatchOffersRequest(resume_token="?"), "resume_token"),
        ("WatchOffers", api.WatchOffersRequest(bookmark_interval_seconds=61), "bookmark_interval_seconds"),
        ("WatchOffers", api.WatchOffersRequest(nodes=["a", ""]), "nodes"),
        ("WatchOffers", api.WatchOffersRequest(nodes=[str(n) for n in range(1001)]), "nodes"),
    ],
)
async def test_a_wrong_request_is_refused_with_its_field(method: str, request_: Any, field: str) -> None:
    async with RpcWorld().served() as served:
        code, trailers, message = await refusal(getattr(served.service, method)(request_))
    assert code is grpc.StatusCode.INVALID_ARGUMENT
    assert (trailers["slackwater-code"], trailers["slackwater-field"]) == ("invalid_input", field)
    assert message.startswith(f"{field}: ")


async def test_an_unknown_node_is_not_found_with_a_hint() -> None:
    world = RpcWorld()
    await fleet(world)
    async with world.served() as served:
        code, trailers, message = await refusal(served.service.GetNode(api.GetNodeRequest(name="aa")))
    assert (code, trailers["slackwater-code"]) == (grpc.StatusCode.NOT_FOUND, "node_not_found")
    assert "did you mean 'a'?" in message
    assert trailers["slackwater-field"] == "name", "as the request calls it"


async def test_a_watch_begins_with_a_snapshot_and_goes_on_with_changes() -> None:
    world = RpcWorld()
    await world.offer("a", "b", "a")
    async with world.served() as served:
        client = Client(served)
        assert (await client.next()).snapshot_start.reason == api.SNAPSHOT_REASON_INITIAL
        assert await client.until_current() == {"a": 2, "b": 1}
        await world.offer("c", "b")
        assert await client.until_current() == {"a": 2, "b": 2, "c": 1}
    assert client.seen == ["snapshot_start", "offer", "offer", "offer", "offer"]


async def test_a_bookmark_says_how_long_offers_are_good() -> None:
    async with RpcWorld().served() as served:
        client = Client(served)
        await client.next()
        mark = (await client.next()).bookmark
    assert mark.valid_until.ToDatetime(UTC) - mark.as_of.ToDatetime(UTC) == timedelta(seconds=180)


async def test_a_token_brings_only_what_changed_to_any_replica() -> None:
    world = RpcWorld()
    await world.offer("a", "b", "c")
    async with world.served() as served:
        client = Client(served)
        await client.until_current()
    await world.offer("b", "d", "b")
    async with world.served() as other:
        again = Client(other, client.token)
        again.held = client.held
        assert await again.until_current() == {"a": 1, "b": 3, "c": 1, "d": 1}
    assert again.seen == ["offer", "offer"]


async def test_a_watcher_that_disconnects_midway_resumes_with_the_rest() -> None:
    world = RpcWorld()
    await world.offer(*(f"n{index:03}" for index in range(250)))
    async with world.served() as served:
        client = Client(served)
        for _ in range(120):
            await client.next()
        client.call.cancel()
        assert len(client.held) == 119
        again = Client(served, client.token)
        await again.until_current()
    assert len(again.held) == 131
    assert not client.held.keys() & again.held.keys()


async def test_a_server_that_stops_ends_its_watches_with_a_token_that_goes_on() -> None:
    world = RpcWorld()
    await world.offer("a")
    async with world.served() as served:
        client = Client(served)
        await client.until_current()
        await asyncio.gather(served.stop(), _ended(client))
    await world.offer("b")
    async with world.served() as other:
        again = Client(other, client.token)
        assert await again.until_current() == {"b": 1}


async def _ended(client: Client) -> None:
    async def read_on() -> None:
        while True:
            await client.next()

    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await read_on()
    trailers = dict(caught.value.trailing_metadata() or ())
    assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
    assert trailers["slackwater-code"] == "stopping"
    assert trailers["slackwater-resume-token"] == client.token


async def test_a_restarted_log_sends_a_snapshot_to_watchers_and_to_resuming_clients() -> None:
    world = RpcWorld()
    await world.offer("a", "b")
    async with world.served() as served:
        client = Client(served)
        await client.until_current()
        before = client.token
        world.broker.begin_anew("STATE")
        await world.offer("b")
        while client.seen.count("snapshot_start") < 2:
            await client.next()
        assert await client.until_current() == {"b": 2}
        late = Client(served, before)
        assert (await late.next()).snapshot_start.reason == api.SNAPSHOT_REASON_LOG_BEGAN_ANEW
        assert await late.until_current() == {"b": 2}


async def test_a_token_belongs_to_its_filter() -> None:
    world = RpcWorld()
    await world.offer("a", "b")
    async with world.served() as served:
        client = Client(served, nodes=["b", "z"])
        assert await client.until_current() == {"b": 1}
        code, trailers, message = await refusal(Client(served, client.token, nodes=["a"]).call)
    assert (code, trailers["slackwater-field"]) == (grpc.StatusCode.INVALID_ARGUMENT, "resume_token")
    assert "other filters" in message


async def test_a_node_comes_into_a_pool_and_leaves_it() -> None:
    world = RpcWorld()
    await world.describe("a", "red")
    await world.describe("b", "blue")
    await world.offer("a", "b")
    async with world.served() as served:
        red = Client(served, pool="red")
        assert await red.until_current() == {"a": 1}
        await world.describe("b", "red")
        assert await red.until_current() == {"a": 1, "b": 1}
        await world.describe("a", "blue")
        assert await red.until_current() == {"b": 1}
    assert red.seen == ["snapshot_start", "offer", "offer", "offer_withdrawn"]


async def test_while_the_bus_is_away_no_bookmark_says_that_all_is_well() -> None:
    world = RpcWorld()
    await world.offer("a")
    async with world.served() as served:
        client = Client(served)
        await client.until_current()
        world.broker.away = True
        waiting = asyncio.create_task(client.until_current())
        assert not await _done_within(waiting, seconds=0.4)
        world.broker.away = False
        with anyio.fail_after(PATIENCE_SECONDS):
            await waiting


async def _done_within(task: asyncio.Task[Any], seconds: float) -> bool:
    done, _ = await asyncio.wait([task], timeout=seconds)
    return bool(done)


async def test_a_reader_that_takes_nothing_is_sent_away() -> None:
    world = RpcWorld()
    more_than_any_window = "x" * 200_000
    await world.offer(*(f"n{index:03}" for index in range(150)), degraded=more_than_any_window)
    async with world.served(slow_seconds=0.3) as served:
        client = Client(served)
        assert await client.next()
        assert served.board.watchers == 1
        with anyio.fail_after(PATIENCE_SECONDS):
            await _until_nobody_is_served(served)


async def _until_nobody_is_served(served: Served) -> None:
    """The handler of the watch has ended; what the client still reads is what was sent before."""
    while served.board.watchers:
        await asyncio.sleep(0.05)
