"""Server-sent events over a bus in memory, in virtual time."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.bus import MemoryBus
from tests.support.clock import EPOCH, FakeClock

from slackwater.console.domain.stream_query import chosen, matches, names_of, positions_of, split, token_of
from slackwater.console.edge.stream import StreamQuery, Streams
from slackwater.console.edge.stream_routes import BY_REQUEST, KNOWN
from slackwater.events.envelope import Event, event_of
from slackwater.events.intent_observed import IntentObserved
from slackwater.events.node_liveness_changed import NodeLivenessChanged
from slackwater.events.usage_reported import UsageReported
from slackwater.model.errors import InvalidInput, Unavailable
from slackwater.model.nodes import Liveness

BOTH = (NodeLivenessChanged, IntentObserved)


def observed(node: str = "edge-7", generation: int = 1) -> Event[IntentObserved]:
    data = IntentObserved(
        node=node, writer="w", generation=generation, boot_epoch="b", received_at=EPOCH, observed_at=EPOCH
    )
    return event_of(data, source="test", time=EPOCH, id=f"{node}-{generation}")


def changed(node: str = "edge-7") -> Event[NodeLivenessChanged]:
    data = NodeLivenessChanged(node=node, liveness=Liveness.LOST, previous=None, last_report_at=EPOCH, changed_at=EPOCH)
    return event_of(data, source="test", time=EPOCH)


class World:
    """A bus, a clock, and streams over both."""

    def __init__(self, **limits: Any) -> None:
        self.clock = FakeClock()
        self.bus = MemoryBus(clock=self.clock)
        self.streams = Streams(self.bus, self.clock, **limits)
        self.exits = AsyncExitStack()

    async def open(self, **wanted: Any) -> AsyncIterator[bytes]:
        given = {"payloads": BOTH} | wanted
        return await self.exits.enter_async_context(self.streams.opened(StreamQuery(**given)))


@pytest.fixture
async def world() -> AsyncIterator[World]:
    world = World()
    async with world.exits:
        yield world


def parsed(chunk: bytes) -> list[dict[str, Any]]:
    """The events of a chunk; each data with its id and event name beside."""
    found = []
    for block in chunk.decode().removesuffix("\n\n").split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
        if "data" in fields:
            found.append({"at": fields["id"], "name": fields["event"]} | json.loads(fields["data"]))
    return found


async def next_of(frames: AsyncIterator[bytes]) -> list[dict[str, Any]]:
    async with asyncio.timeout(60):
        return parsed(await anext(frames))


async def test_a_stream_begins_with_its_place_so_that_even_a_silent_one_can_be_resumed(world: World) -> None:
    await world.bus.publish(observed())
    first = (await anext(await world.open())).decode()
    assert first == "retry: 2000\nid: AGENTS:1,STATE:0\n: open\n\n"


async def test_an_event_comes_with_its_place_its_attributes_and_its_payload(world: World) -> None:
    frames = await world.open()
    await anext(frames)
    await world.bus.publish(observed())
    (event,) = await next_of(frames)
    assert (event["at"], event["name"], event["type"]) == ("AGENTS:1,STATE:0", "intent.observed", "intent.observed")
    assert (event["id"], event["node"], event["source"], event["version"]) == ("edge-7-1", "edge-7", "test", 1)
    assert IntentObserved.model_validate(event["data"]) == observed().data


@pytest.mark.parametrize("end", ["\u2028", "\u2029", "\x85"])
async def test_an_event_is_one_line_also_to_clients_that_end_lines_where_unicode_does(world: World, end: str) -> None:
    frames = await world.open()
    await anext(frames)
    await world.bus.publish(observed(f"edge{end}7"))
    chunk = await anext(frames)
    (data,) = [line.removeprefix("data: ") for line in chunk.decode().splitlines() if line.startswith("data: ")]
    assert json.loads(data)["data"]["node"] == f"edge{end}7"


async def test_another_replica_goes_on_where_one_ended(world: World) -> None:
    frames = await world.open()
    await anext(frames)
    for generation in (1, 2, 3):
        await world.bus.publish(observed(generation=generation))
    seen = await next_of(frames)
    another = Streams(MemoryBus(world.bus.broker), world.clock)
    async with another.opened(StreamQuery(BOTH, after=positions_of(seen[0]["at"], "after"))) as resumed:
        await anext(resumed)
        assert [event["id"] for event in await next_of(resumed)] == ["edge-7-2", "edge-7-3"]


async def test_what_is_not_kept_any_more_is_a_gap_and_not_silence(world: World) -> None:
    for generation in range(1, 6):
        await world.bus.publish(observed(generation=generation))
    world.bus.broker.truncate("AGENTS", 5)
    frames = await world.open(after={"AGENTS": 2})
    await anext(frames)
    gap, left = await next_of(frames)
    assert (gap["name"], gap["type"], gap["reason"], gap["at"]) == ("gap", "gap", "expired", "AGENTS:4,STATE:0")
    assert (gap["after"], gap["resumed_after"], left["id"]) == (2, 4, "edge-7-5")


@pytest.mark.parametrize("nodes", [("edge-8",), ("*-8",), ("none", "edge-[89]")])
async def test_the_stream_keeps_to_its_nodes(world: World, nodes: tuple[str, ...]) -> None:
    frames = await world.open(nodes=nodes)
    await anext(frames)
    for event in (observed("edge-7"), changed("edge-77"), observed("edge-8")):
        await world.bus.publish(event)
    assert [event["node"] for event in await next_of(frames)] == ["edge-8"]


async def test_a_silent_stream_beats_moves_its_place_on_and_then_still_delivers(world: World) -> None:
    frames = await world.open(nodes=("edge-*",))
    await anext(frames)
    await world.bus.publish(observed("other"))
    for expected in (b"id: AGENTS:1,STATE:0\n: alive\n\n", b": alive\n\n"):
        beat = asyncio.ensure_future(anext(frames))
        await world.clock.advance(15)
        assert await beat == expected
    await world.bus.publish(observed())
    assert [event["id"] for event in await next_of(frames)] == ["edge-7-1"]


async def test_closing_says_why_and_lets_new_readers_in(world: World) -> None:
    frames = await world.open()
    await anext(frames)
    world.streams.close()
    (last,) = await next_of(frames)
    assert (last["name"], last["reason"]) == ("closing", "server_stopping")
    assert await anext(frames, None) is None
    again = await world.open()
    await anext(again)
    await world.bus.publish(observed())
    assert len(await next_of(again)) == 1


async def test_a_brief_stream_sends_only_what_the_api_already_shows(world: World) -> None:
    frames = await world.open(brief=True)
    await anext(frames)
    await world.bus.publish(observed())
    waiting = asyncio.ensure_future(anext(frames))
    await world.clock.advance(0.4)
    assert not waiting.done(), "the console has not recorded it yet"
    (delivery,) = world.bus.broker.fetch("console-intent-observed", 10)
    await delivery.ack()
    await world.clock.advance(0.1)
    (event,) = parsed(await waiting)
    assert (event["type"], event["data"]) == ("intent.observed", None)


async def test_a_brief_stream_does_not_wait_for_ever(world: World) -> None:
    frames = await world.open(brief=True)
    await anext(frames)
    await world.bus.publish(observed())
    waiting = asyncio.ensure_future(anext(frames))
    await world.clock.advance(3)
    assert len(parsed(await waiting)) == 1


async def test_one_reader_too_many_is_refused_and_its_place_becomes_free_again() -> None:
    world = World(most=1)
    async with world.streams.opened(StreamQuery(BOTH)):
        with pytest.raises(Unavailable, match="1 streams are open") as refused:
            async with world.streams.opened(StreamQuery(BOTH)):
                pass
        assert refused.value.code == "too_many_streams"
    async with world.streams.opened(StreamQuery(BOTH)):
        assert world.streams.open == 1
    assert world.streams.open == 0


async def test_a_stream_cannot_be_opened_while_the_bus_is_away(world: World) -> None:
    world.bus.broker.away = True
    with pytest.raises(Unavailable):
        await world.open()
    assert world.streams.open == 0


async def test_what_is_no_valid_event_is_left_out(world: World) -> None:
    from slackwater.bus.codec.cloudevents import Message, encode

    frames = await world.open()
    await anext(frames)
    good = encode(observed())
    world.bus.broker.store("AGENTS", Message(good.subject, {**good.headers, "Nats-Msg-Id": "x"}, b'{"node": 7}'))
    await world.bus.publish(observed(generation=2))
    assert [event["id"] for event in await next_of(frames)] == ["edge-7-2"]


async def test_a_past_time_is_a_place_to_begin(world: World) -> None:
    await world.bus.publish(observed(generation=1))
    await world.clock.advance(60)
    await world.bus.publish(observed(generation=2))
    frames = await world.open(since=EPOCH + timedelta(seconds=30))
    await anext(frames)
    assert [event["id"] for event in await next_of(frames)] == ["edge-7-2"]


def test_types_are_chosen_by_name_and_pattern_and_reports_only_on_request() -> None:
    assert set(chosen((), KNOWN, BY_REQUEST)) == set(KNOWN) - {
        "usage.reported",
        "waterline.crossed",
        "pods.rostered",
    }
    assert chosen(("*",), KNOWN, BY_REQUEST) == chosen((), KNOWN, BY_REQUEST)
    assert chosen(("usage.reported",), KNOWN, BY_REQUEST) == ("usage.reported",)
    assert chosen(("node.*", "usage.*"), KNOWN, BY_REQUEST) == (
        "node.deleted",
        "node.described",
        "node.liveness_changed",
        "node.reserved",
        "node.scheduling_changed",
        "usage.reported",
        "usage.windowed",
    )


def test_a_type_that_is_none_is_refused_with_what_there_is() -> None:
    with pytest.raises(InvalidInput) as refused:
        chosen(("decision.made",), KNOWN, BY_REQUEST)
    assert refused.value.code == "unknown_event_type"
    assert all(name in refused.value.message for name in KNOWN)


def test_patterns_come_with_commas_and_repeated_and_not_without_end() -> None:
    assert split(["a, b", "c,,a"], "node") == ("a", "b", "c")
    assert split(None, "node") == ()
    with pytest.raises(InvalidInput, match="at most"):
        split([",".join(map(str, range(51)))], "node")


def test_a_name_with_brackets_still_names_itself() -> None:
    assert matches("rack[1]", ("rack[1]",))
    assert names_of(("rack[1]", "a")) == ()
    assert names_of(("a", "a/b", "/")) == ("a",)
    assert matches("anything", ())


@given(
    st.dictionaries(
        st.from_regex(r"[A-Z][A-Z0-9_]{0,20}", fullmatch=True), st.integers(0, 10**18), min_size=1, max_size=8
    )
)
def test_a_place_reads_as_it_was_written(positions: dict[str, int]) -> None:
    assert positions_of(token_of(positions), "after") == positions


@given(st.text())
def test_what_was_never_a_place_is_refused_and_nothing_else_happens(text: str) -> None:
    if re.fullmatch(r"[A-Z][A-Z0-9_]*:\d{1,19}", text):
        return
    with pytest.raises(InvalidInput) as refused:
        positions_of(text, "after")
    assert (refused.value.code, refused.value.field) == ("invalid_position", "after")


async def test_a_node_is_open_while_a_reader_follows_its_reports(world: World) -> None:
    """So that the console reads all of them (tests/unit/console/test_console_thinning.py)."""
    async with (
        world.streams.opened(StreamQuery([UsageReported], ("edge-7", "rack-*"))),
        world.streams.opened(StreamQuery(BOTH, ("edge-8",))),
    ):
        assert not world.streams.shows_reports_of("edge-7"), "a pattern asks for all nodes"
    async with world.streams.opened(StreamQuery([UsageReported], ("edge-7",))):
        async with world.streams.opened(StreamQuery([UsageReported], ("edge-7",))):
            assert world.streams.shows_reports_of("edge-7")
        assert world.streams.shows_reports_of("edge-7")
        assert not world.streams.shows_reports_of("edge-8")
    assert not world.streams.shows_reports_of("edge-7")
