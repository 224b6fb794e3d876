"""Stream readers: what both buses promise to a client that follows several types and resumes."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest

from slackwater.bus.codec.cloudevents import Message
from slackwater.bus.read.stream_reader import GapCause, StreamEvent, StreamGap, StreamReader
from slackwater.events.envelope import Event, event_of
from slackwater.events.intent_observed import IntentObserved
from slackwater.events.node_liveness_changed import NodeLivenessChanged
from slackwater.model.nodes import Liveness

NOW = datetime(2026, 1, 5, tzinfo=UTC)
BOTH = (NodeLivenessChanged, IntentObserved)


def changed(node: str) -> Event[NodeLivenessChanged]:
    data = NodeLivenessChanged(
        node=node, liveness=Liveness.STALE, previous=Liveness.FRESH, last_report_at=NOW, changed_at=NOW
    )
    return event_of(data, source="test", time=NOW)


def observed(node: str, generation: int = 1) -> Event[IntentObserved]:
    data = IntentObserved(
        node=node, writer="ensurance", generation=generation, boot_epoch="b", received_at=NOW, observed_at=NOW
    )
    return event_of(data, source="test", time=NOW, causedby="before")


async def take(following: StreamReader, count: int) -> list[Any]:
    found: list[Any] = []
    async with asyncio.timeout(60):
        while len(found) < count:
            found += await following.next()
    return found


async def publish(bus: Any, *events: Event[Any]) -> None:
    for event in events:
        await bus.publish(event)


async def test_events_of_several_streams_pass_with_their_attributes_and_positions(given: Any) -> None:
    async with given.process() as bus:
        await publish(bus, observed("before"))
        async with bus.follow(BOTH) as following:
            assert following.positions == {"STATE": 0, "AGENTS": 1}
            sent = observed("edge-7"), changed("edge.8")
            await publish(bus, *sent)
            found = {item.payload.TYPE: item for item in await take(following, 2)}
    seen = found["intent.observed"]
    assert (seen.id, seen.time, seen.source, seen.causedby) == (sent[0].id, NOW, "test", "before")
    assert (seen.key, seen.stream, seen.sequence) == ("edge-7/ensurance", "AGENTS", 2)
    assert IntentObserved.model_validate_json(seen.body) == sent[0].data
    assert (found["node.liveness_changed"].key, found["node.liveness_changed"].sequence) == ("edge.8", 1)


async def test_a_reader_that_resumes_at_its_positions_reads_each_message_once(given: Any) -> None:
    async with given.process() as bus:
        async with bus.follow(BOTH) as following:
            await publish(bus, observed("a"), changed("a"))
            seen = {item.stream: item.sequence for item in await take(following, 2)}
        await publish(bus, observed("b"), changed("b"), observed("c"))
    async with given.process() as another, another.follow(BOTH, after=seen) as following:
        found = await take(following, 3)
        await publish(another, observed("d"))
        found += await take(following, 1)
    by_stream = {
        stream: [item.key.split("/")[0] for item in found if item.stream == stream] for stream in ("AGENTS", "STATE")
    }
    assert by_stream == {"AGENTS": ["b", "c", "d"], "STATE": ["b"]}


async def test_a_removed_position_is_reported_before_the_remaining_messages(given: Any) -> None:
    async with given.process() as bus:
        await publish(bus, *(observed(f"n{number}") for number in range(1, 6)))
        await given.forget("AGENTS", 4)
        async with bus.follow([IntentObserved], after={"AGENTS": 1}) as following:
            found = await take(following, 3)
        async with bus.follow([IntentObserved], after={"AGENTS": 3}) as following:
            whole = await take(following, 2)
    assert found[0] == StreamGap("AGENTS", after=1, resumed_after=3, cause=GapCause.EXPIRED)
    assert [item.sequence for item in found[1:]] == [4, 5]
    assert [item.sequence for item in whole] == [4, 5], "the position before the first that is left is no gap"


async def test_values_that_were_superseded_are_no_gap(given: Any) -> None:
    async with given.process() as bus:
        await publish(bus, changed("a"), changed("a"), changed("b"), changed("a"))
        async with bus.follow([NodeLivenessChanged], after={"STATE": 1}) as following:
            found = await take(following, 2)
    assert [(item.key, item.sequence) for item in found] == [("b", 3), ("a", 4)]


async def test_a_position_after_the_end_is_reported_and_new_messages_follow(given: Any) -> None:
    async with given.process() as bus:
        await publish(bus, observed("a"))
        async with bus.follow([IntentObserved], after={"AGENTS": 70}) as following:
            await publish(bus, observed("b"))
            found = await take(following, 2)
    assert found[0] == StreamGap("AGENTS", after=70, resumed_after=1, cause=GapCause.BEGAN_ANEW)
    assert found[1].key == "b/ensurance"


async def test_only_the_nodes_that_were_asked_for_pass(given: Any) -> None:
    async with given.process() as bus, bus.follow(BOTH, keys=["edge-7", "other"]) as following:
        await publish(bus, observed("edge-8"), changed("edge-77"), observed("edge-7"), changed("other"))
        found = await take(following, 2)
    assert sorted(item.key for item in found) == ["edge-7/ensurance", "other"]


async def test_a_past_time_is_a_place_to_begin(given: Any) -> None:
    async with given.process() as bus:
        await publish(bus, observed("a"))
        await asyncio.sleep(0.05)
        moment = datetime.now(UTC)
        await publish(bus, observed("b"), observed("c"))
        async with bus.follow(BOTH, since=moment) as following:
            found = await take(following, 2)
    assert [item.key.split("/")[0] for item in found] == ["b", "c"]


async def test_without_bodies_there_are_attributes_only(given: Any) -> None:
    event = observed("edge-7")
    async with given.process() as bus, bus.follow([IntentObserved], bodies=False) as following:
        await publish(bus, event)
        (found,) = await take(following, 1)
    assert isinstance(found, StreamEvent)
    assert (found.id, found.body) == (event.id, b"")


async def test_what_is_no_event_does_not_stop_the_look(given: Any) -> None:
    async with given.process() as bus, bus.follow([IntentObserved]) as following:
        await given.inject("AGENTS", Message("sw.v1.intent.observed.3.poison", {}, b"\x00"))
        await publish(bus, observed("good"))
        (found,) = await take(following, 1)
    assert found.key == "good/ensurance"


@pytest.mark.parametrize("count", [260])
async def test_a_backlog_arrives_whole_and_in_order_however_slowly_it_is_taken(given: Any, count: int) -> None:
    async with given.process() as bus:
        await publish(bus, *(observed(f"a{number % 20}", number) for number in range(count)))
        async with bus.follow([IntentObserved], after={"AGENTS": 0}) as following:
            sizes, sequences = [], []
            async with asyncio.timeout(60):
                while len(sequences) < count:
                    await asyncio.sleep(0.01)
                    batch = await following.next()
                    sizes.append(len(batch))
                    sequences += [item.sequence for item in batch]
    assert sequences == list(range(1, count + 1))
    assert max(sizes) <= 50, "no more than a batch is held at a time"


@pytest.mark.parametrize("moment", ["0001-01-01", "1600-01-01", "2100-01-01", "9999-12-31"])
async def test_a_time_far_away_is_before_or_behind_everything(given: Any, moment: str) -> None:
    since = datetime.fromisoformat(moment).replace(tzinfo=UTC)
    async with given.process() as bus:
        await publish(bus, observed("a"))
        async with bus.follow(BOTH, since=since) as following:
            await publish(bus, observed("b"))
            found = await take(following, 1)
    assert found[0].key.split("/")[0] == ("a" if since < NOW else "b")
