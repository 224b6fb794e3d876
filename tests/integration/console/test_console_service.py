"""The whole console on PostgreSQL and NATS: what is published on the bus is what the API answers."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NoReturn

import anyio
import httpx2
import pytest_asyncio
from tests.support.postgres_server import FreshDatabase
from tests.support.story import FLEET, LENGTH_SECONDS, SURGE, Character, identifier, story

from slackwater.bus.admin.streams import consumer_name
from slackwater.bus.connect.nats_bus import NatsBus, connect_bus
from slackwater.console.service import ConsoleService, build
from slackwater.console.settings import ConsoleSettings
from slackwater.events.decision_recorded import DecisionRecorded
from slackwater.events.effect_measured import EffectMeasured
from slackwater.events.envelope import Event, event_of
from slackwater.events.intent_observed import IntentObserved
from slackwater.events.state_quarantined import QuarantineReason, StateQuarantined
from slackwater.model.time import SystemClock
from slackwater.runtime.http import HttpServer, build_app
from slackwater.runtime.platform import Platform
from slackwater.runtime.settings import HttpSettings
from slackwater.store.engine import connect_database


async def _never_asked() -> NoReturn:
    raise AssertionError("health is not requested here")


@dataclass
class World:
    """Buses and databases outlive a console, as they do in the field."""

    bus: NatsBus
    platform: Platform

    @asynccontextmanager
    async def console(self) -> AsyncIterator[tuple[httpx2.AsyncClient, ConsoleService]]:
        """A process with a console in it, and a client of its API."""
        service, ready, listening = build(ConsoleSettings(), self.platform), asyncio.Event(), asyncio.Event()
        server = HttpServer(HttpSettings(host="127.0.0.1", port=0))
        app = build_app(service.routers(), _never_asked, HttpSettings(host="127.0.0.1", port=0))
        running = [asyncio.create_task(service.run(ready.set)), asyncio.create_task(server.run(app, listening.set))]
        try:
            with anyio.fail_after(60):
                await ready.wait()
                await listening.wait()
            async with httpx2.AsyncClient(base_url=server.url, trust_env=False) as client:
                yield client, service
        finally:
            for task in running:
                task.cancel()
            await asyncio.wait(running)

    async def deliver_everything_again(self) -> None:
        """Forget how far the console had read: a new console gets all that the streams keep once more."""
        for payload in (DecisionRecorded, EffectMeasured, IntentObserved):
            assert await self.bus.jetstream.delete_consumer(payload.STREAM, consumer_name("console", payload))
        await self.bus.declare()

    async def publish(self, events: Sequence[Event[Any]]) -> None:
        for event in events:
            await self.bus.publish(event)


@pytest_asyncio.fixture
async def world(bus: NatsBus, fresh_database: FreshDatabase, tmp_path: Path) -> AsyncIterator[World]:
    addresses = await fresh_database(["console"])
    clock = SystemClock()
    database = connect_database(addresses["console"], "console", clock)
    yield World(bus, Platform(bus, clock, lambda _: database, tmp_path))
    await database.close()


async def answer(client: httpx2.AsyncClient, path: str, **params: Any) -> Any:
    response = await client.get(path, params=params)
    response.raise_for_status()
    return response.json()


async def counts(client: httpx2.AsyncClient, holds: Callable[[Any], bool]) -> Any:
    """What the read model holds, as soon as it holds this."""
    with anyio.fail_after(60):
        while not holds(found := await answer(client, "/v1/counts")):
            await asyncio.sleep(0.02)
    return found


def episode(fleet: Sequence[Character] = FLEET[:1]) -> list[Event[Any]]:
    """The surge of the story and its last reports: few enough that no stream that keeps only the newest drops one."""
    end = datetime.now(UTC)
    start = end - timedelta(seconds=LENGTH_SECONDS)
    kept = (range(SURGE[0], SURGE[0] + 45), range(LENGTH_SECONDS - 10, LENGTH_SECONDS + 1))

    def told(event: Event[Any]) -> bool:
        second = round((event.time - start).total_seconds())
        return event.data.TYPE != "usage.reported" or any(second in span for span in kept)

    return [event for event in story(end, tuple(fleet)) if told(event)]


def whole(events: Sequence[Event[Any]]) -> Callable[[Any], bool]:
    """What must not be lost has arrived: reports while the console is there, decisions and outcomes in any case."""
    by_type = Counter(event.data.TYPE for event in events)
    expected = {
        "usage.reported": "reports",
        "intent.observed": "observations",
        "effect.measured": "effects",
    }

    def holds(found: Any) -> bool:
        decisions = sum(each["count"] for each in found["decisions"])
        complete = all(found[name] == by_type[event_type] for event_type, name in expected.items())
        return complete and decisions == by_type["decision.recorded"]

    return holds


async def test_two_consoles_write_everything_once_and_answer_the_same(
    world: World, nats_url: str, fresh_database: FreshDatabase
) -> None:
    """Each message goes to one of them (they share the consumers); both read what both have written."""
    dsn, clock = (await fresh_database(["console"]))["console"], SystemClock()
    events = episode(FLEET[:3])
    middle = len(events) // 2
    async with AsyncExitStack() as stack:
        clients = []
        for number in range(2):
            database = connect_database(dsn, "console", clock)
            stack.push_async_callback(database.close)
            bus = await stack.enter_async_context(connect_bus(nats_url, name=f"console-{number}", declares=False))
            one = World(bus, Platform(bus, clock, lambda _, mine=database: mine, Path("/nowhere")))  # type: ignore[misc] # bound now
            client, _ = await stack.enter_async_context(one.console())
            clients.append(client)
        killed = await stack.enter_async_context(dying_console(nats_url, dsn))
        await world.publish(events[:middle])
        killed.kill()  # what it had in hand comes again, to one of the others
        await world.publish(events[middle:])
        await counts(clients[0], whole(events))
        paths = ["/v1/nodes", "/v1/pods", "/v1/offers", "/v1/decisions?limit=100", "/v1/counts", "/v1/nodes/edge-7"]
        for path in paths:
            assert await answer(clients[0], path) == await answer(clients[1], path)
        letters = await answer(clients[0], "/v1/deadletters")
        assert letters["items"] == []


_DYING = """
import asyncio, sys
from pathlib import Path
from slackwater.bus.connect.nats_bus import connect_bus
from slackwater.console.service import build
from slackwater.console.settings import ConsoleSettings
from slackwater.model.time import SystemClock
from slackwater.runtime.platform import Platform
from slackwater.store.engine import connect_database

async def main(nats_url, dsn):
    database = connect_database(dsn, "console", SystemClock())
    async with connect_bus(nats_url, name="dying", declares=False) as bus:
        service = build(ConsoleSettings(), Platform(bus, SystemClock(), lambda _: database, Path("/nowhere")))
        await service.run(lambda: print("started", flush=True))

asyncio.run(main(*sys.argv[1:]))
"""


@asynccontextmanager
async def dying_console(nats_url: str, dsn: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """A console in a process of its own, to be killed."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    command = [sys.executable, "-c", _DYING, nats_url, dsn]
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE, env=environment)
    try:
        assert process.stdout is not None
        assert await process.stdout.readline() == b"started\n"
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def test_what_is_published_is_what_the_api_answers(world: World) -> None:
    events = episode()
    async with world.console() as (client, service):
        await world.publish(events)
        await counts(client, whole(events))
        why = await answer(client, "/v1/why", node="edge-7", subject="batch-cpu")
        assert why["adds_up"]
        assert sum(row["value"] for row in why["waterfall"]) == why["result"]
        chain = await answer(client, f"/v1/decisions/{identifier('edge-7', 'throttle', SURGE[0] + 25)}/chain")
        assert [step["kind"] for step in chain["steps"]] == [
            "usage.reported",
            "decision.recorded",
            "intent.observed",
            "effect.measured",
        ]
        assert chain["complete"]
        assert all(check.ok for check in await service.checks())


async def test_a_console_that_was_away_catches_up_and_what_comes_again_changes_nothing(world: World) -> None:
    events = episode()
    reports = [event for event in events if event.data.TYPE == "usage.reported"]
    others = [event for event in events if event.data.TYPE != "usage.reported"]
    async with world.console() as (client, _):
        await world.publish([*reports, *others[:20]])
        await counts(client, whole([*reports, *others[:20]]))
    await world.publish(others[20:])  # without a reader
    async with world.console() as (client, _):
        await counts(client, whole(events))
        before = await state_after(client, events)
    await world.deliver_everything_again()
    marker = episode(FLEET[1:2])
    async with world.console() as (client, _):
        await world.publish(marker)
        await counts(client, whole([*events, *marker]))
        assert await state_after(client, events) == before
    assert before["node"]["offer"]["generation"] == LENGTH_SECONDS // 60
    assert before["node"]["liveness"] == "fresh"


async def state_after(client: httpx2.AsyncClient, events: Sequence[Event[Any]]) -> dict[str, Any]:
    """The same, once the last offer has come and nothing more does: counts tell nothing of what is only shown."""
    newest = max(event.data.generation for event in events if event.data.TYPE == "resources.offered")
    before: dict[str, Any] = {}
    with anyio.fail_after(60):
        while (found := await state(client)) != before or (found["node"]["offer"] or {}).get("generation", 0) < newest:
            before = found
            await asyncio.sleep(0.3)
    return found


async def state(client: httpx2.AsyncClient) -> dict[str, Any]:
    """All that is known of the node of the story."""
    return {
        "node": await answer(client, "/v1/nodes/edge-7"),
        "decisions": await answer(client, "/v1/decisions", node="edge-7", limit=500),
        "usage": await answer(client, "/v1/nodes/edge-7/usage", since="-1h"),
    }


async def test_the_stream_sends_the_requested_events_only(world: World) -> None:
    events = episode(FLEET[:2])
    async with world.console() as (client, _):
        query = {"types": "decision.recorded,effect.measured", "node": "edge-7"}
        async with client.stream("GET", "/v1/stream", params=query, timeout=60) as stream:
            lines = stream.aiter_lines()
            assert (await anext(lines)).startswith("retry:")
            await world.publish(events)
            wanted = {
                event.id
                for event in events
                if event.data.TYPE in ("decision.recorded", "effect.measured") and node_of(event) == "edge-7"
            }
            heard: dict[str, Any] = {}
            while heard.keys() != wanted:
                line = await anext(lines)
                if line.startswith("data: "):
                    news = json.loads(line.removeprefix("data: "))
                    heard[news["id"]] = news
                    assert news["id"] in wanted
    assert {news["type"] for news in heard.values()} == {"decision.recorded", "effect.measured"}
    assert {news["node"] for news in heard.values()} == {"edge-7"}


async def heard(client: httpx2.AsyncClient, count: int, place: str | None = None) -> list[tuple[str, str]]:
    """The place and the id of so many events of a stream, which is then left."""
    found: list[tuple[str, str]] = []
    headers = {"Last-Event-ID": place} if place else {"Last-Event-ID": "DECISIONS:0"}
    query = {"types": "decision.*,effect.*,intent.observed"}
    async with client.stream("GET", "/v1/stream", params=query, headers=headers, timeout=60) as stream:
        assert stream.status_code == 200
        at = ""
        async for line in stream.aiter_lines():
            at = line.removeprefix("id: ") if line.startswith("id: ") else at
            if line.startswith("data: "):
                found.append((at, json.loads(line.removeprefix("data: "))["id"]))
            if len(found) == count:
                break
    return found


async def test_a_stream_goes_on_at_another_console_where_it_was_cut(world: World) -> None:
    events = [event for event in episode() if event.data.STREAM == "DECISIONS"]
    await world.publish(events)
    order = [event.id for event in events]
    async with world.console() as (client, _):
        first = await heard(client, 5)
    async with world.console() as (client, _):  # a new process: nothing is remembered but the place
        second = await heard(client, len(order) - 5, first[-1][0])
    assert [identity for _, identity in first + second] == order


async def test_a_stream_ends_with_a_word_when_the_console_stops(world: World) -> None:
    async with AsyncExitStack() as stack:
        async with world.console() as (client, _):
            mine = await stack.enter_async_context(httpx2.AsyncClient(base_url=client.base_url, trust_env=False))
            stream = await stack.enter_async_context(mine.stream("GET", "/v1/stream", timeout=60))
            lines = stream.aiter_lines()
            assert (await anext(lines)).startswith("retry:")
            rest = asyncio.create_task(_all(lines))
        async with asyncio.timeout(60):
            text = await rest
    assert "event: closing" in text
    assert 'data: {"type":"closing","reason":"server_stopping"}' in text


async def _all(lines: AsyncIterator[str]) -> list[str]:
    return [line async for line in lines]


async def test_a_reader_of_too_much_or_of_nonsense_is_refused_before_anything_is_sent(world: World) -> None:
    async with world.console() as (client, _):
        refused = await client.get("/v1/stream", params={"types": "nothing.happened"})
        assert refused.headers["content-type"] == "application/problem+json"
        assert "decision.recorded" in refused.json()["detail"]
        refused = await client.get("/v1/stream", headers={"Last-Event-ID": "yesterday"})
        assert refused.json()["code"] == "invalid_position"


def node_of(event: Event[Any]) -> str:
    data = event.data
    return str(data.record.node if hasattr(data, "record") else data.node)


async def test_a_listed_event_is_stored_once_with_its_trace(world: World) -> None:
    now = datetime.now(UTC)
    item = StateQuarantined(
        service="prediction", id="q1", table="series", row="n1/web", node="n1", reason=QuarantineReason.UNREADABLE,
        detail="d", since=now, count=1, told_at=now,
    )  # fmt: skip
    event = event_of(item, source="prediction", time=now, traceparent=f"00-{'ab' * 16}-{'cd' * 8}-01")
    await world.publish([event])

    async def listed(client: httpx2.AsyncClient) -> list[Any]:
        with anyio.fail_after(60):
            while not (found := (await answer(client, "/v1/events", types="state.*"))["items"]):
                await asyncio.sleep(0.02)
        return list(found)

    async with world.console() as (client, _):
        (first,) = await listed(client)
    assert (first["id"], first["node"], first["trace"]) == (event.id, "n1", "ab" * 16)
    assert first["data"] == item.model_dump(mode="json")
    assert await world.bus.jetstream.delete_consumer("DECISIONS", "console-state-quarantined")
    await world.bus.declare()
    async with world.console() as (client, _):
        with anyio.fail_after(60):
            while await world.bus.settled_up_to("console-state-quarantined") == 0:
                await asyncio.sleep(0.02)
        assert await listed(client) == [first]
