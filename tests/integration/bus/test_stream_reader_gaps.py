"""A reader that lags, or has a filter: it is notified of every event that it will miss, and of nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from test_stream_readers import changed, observed, publish, take

from slackwater.bus.consume import pull_requests
from slackwater.bus.read import nats_stream_reader
from slackwater.bus.read.ordered_reader import OrderedReader
from slackwater.bus.read.stream_reader import GapCause, Item, StreamEvent, StreamGap
from slackwater.events.intent_observed import IntentObserved

PATIENCE_SECONDS = 60.0


async def read_up_to(following: Any, last: int, found: list[Item]) -> list[Item]:
    """Reads until the message at `last` has arrived, or is reported as dropped."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while max((_end(item) for item in found), default=0) < last:
            found += await following.next()
    return found


def _end(item: Item) -> int:
    return item.sequence if isinstance(item, StreamEvent) else item.resumed_after


def given_and_gone(found: Sequence[Item]) -> tuple[list[int], list[int]]:
    given = [item.sequence for item in found if isinstance(item, StreamEvent)]
    gone = [at for item in found if isinstance(item, StreamGap) for at in range(item.after + 1, item.resumed_after + 1)]
    return given, gone


@pytest.mark.parametrize("look_back_seconds", [0.0, 1000.0])
async def test_a_lagging_reader_gets_the_exact_range_of_removed_messages(
    given: Any, monkeypatch: pytest.MonkeyPatch, look_back_seconds: float
) -> None:
    """However long it took between two batches: a lag of many short waits is a lag, too."""
    monkeypatch.setattr(nats_stream_reader, "LOOK_BACK_SECONDS", look_back_seconds)
    async with given.process() as bus:
        await publish(bus, *(observed("a", number) for number in range(200)))
        async with bus.follow([IntentObserved], after={"AGENTS": 0}) as following:
            async with asyncio.timeout(PATIENCE_SECONDS):
                found = list(await following.next())
            await asyncio.sleep(0.1)  # the next batch may be on its way by now, or not: both must be reported
            await given.forget("AGENTS", 151)
            await read_up_to(following, 200, found)
            await publish(bus, observed("a", 200))
            await read_up_to(following, 201, found)
    seen, gone = given_and_gone(found)
    assert sorted(seen + gone) == list(range(1, 202)), (
        "nothing is missing that was not told, and nothing told that came"
    )
    assert seen == sorted(seen)
    assert gone
    assert [item.cause for item in found if isinstance(item, StreamGap)] == [GapCause.EXPIRED]


async def test_messages_removed_without_a_read_are_reported(given: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nats_stream_reader, "LOOK_BACK_SECONDS", 0.0)
    async with given.process() as bus, bus.follow([IntentObserved]) as following:
        await publish(bus, observed("a", 1))
        await asyncio.sleep(0.1)
        await publish(bus, *(observed("a", number) for number in range(2, 6)))
        await given.forget("AGENTS", 4)
        found = await read_up_to(following, 5, [])
    seen, gone = given_and_gone(found)
    assert sorted(seen + gone) == [1, 2, 3, 4, 5]
    assert gone in ([2, 3], [1, 2, 3])


async def test_a_lag_without_loss_is_no_gap(given: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nats_stream_reader, "LOOK_BACK_SECONDS", 0.0)
    async with given.process() as bus, bus.follow([IntentObserved]) as following:
        await publish(bus, *(observed(f"n{number % 8}", number) for number in range(120)))
        found = await read_up_to(following, 120, [])
    assert given_and_gone(found) == (list(range(1, 121)), [])


async def test_a_place_moves_on_past_what_is_not_wanted_so_that_coming_back_is_no_gap(
    given: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stream drops events outside the filter: a reader that stayed connected has missed nothing."""
    monkeypatch.setattr(pull_requests, "EXPIRES_SECONDS", 0.4)
    monkeypatch.setattr(pull_requests, "HEARTBEAT_SECONDS", 0.1)
    async with given.process() as bus:
        async with bus.follow([IntentObserved], keys=["quiet"]) as following:
            await publish(bus, observed("quiet"), *(observed("loud", number) for number in range(20)))
            found = await take(following, 1)
            async with asyncio.timeout(PATIENCE_SECONDS):
                waiting = asyncio.ensure_future(following.next())
                while following.positions["AGENTS"] < 21:
                    await asyncio.sleep(0.05)
            place = dict(following.positions)
            assert not waiting.done()
            waiting.cancel()
        await publish(bus, observed("loud", 20), observed("quiet", 2))
        await given.forget("AGENTS", 20)
        async with bus.follow([IntentObserved], after=place, keys=["quiet"]) as following:
            found += await take(following, 1)
    assert [item.sequence for item in found] == [1, 23]


async def test_a_place_does_not_move_past_what_was_not_taken(given: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pull_requests, "EXPIRES_SECONDS", 0.2)
    monkeypatch.setattr(pull_requests, "HEARTBEAT_SECONDS", 0.05)
    async with given.process() as bus, bus.follow([IntentObserved], keys=["quiet"]) as following:
        await publish(bus, observed("quiet"), *(observed("loud", number) for number in range(5)))
        await asyncio.sleep(1)
        assert following.positions == {"AGENTS": 0}
        await take(following, 1)


async def test_readers_are_notified_of_a_recreated_stream(given: Any) -> None:
    async with given.process() as bus, bus.follow([IntentObserved]) as following:
        await publish(bus, *(observed("a", number) for number in range(1, 8)))
        found = await take(following, 7)
        await given.begin_anew("AGENTS")
        await publish(bus, observed("b"))
        found = await read_up_to_name(following, "b/ensurance")
    missed = [item for item in found if isinstance(item, StreamGap)]
    assert missed == [StreamGap("AGENTS", 7, missed[0].resumed_after, GapCause.BEGAN_ANEW)]
    assert missed[0].resumed_after in (0, 1)
    assert [item.sequence for item in found if isinstance(item, StreamEvent)] == [1]


async def read_up_to_name(following: Any, key: str) -> list[Item]:
    found: list[Item] = []
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not any(isinstance(item, StreamEvent) and item.key == key for item in found):
            found += await following.next()
    return found


@pytest.mark.parametrize("url_or_memory", ["nats"], indirect=True)
async def test_messages_removed_during_a_lost_connection_are_reported(
    given: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, opened = asyncio.Event(), OrderedReader._open

    async def open_later(self: OrderedReader) -> Any:
        if self.opens:
            await gate.wait()
        return await opened(self)

    monkeypatch.setattr(OrderedReader, "_open", open_later)
    async with given.process() as bus, bus.follow([IntentObserved]) as following:
        await publish(bus, observed("a", 1), changed("a"))
        found = await take(following, 1)
        bus.reconnected()  # what the client says after it had been away
        await publish(bus, *(observed("a", number) for number in range(2, 6)))
        await given.forget("AGENTS", 4)
        gate.set()
        await read_up_to(following, 5, found)
    seen, gone = given_and_gone(found)
    # the open request may have brought the second message before it was given up
    assert (seen, gone) in (([1, 4, 5], [2, 3]), ([1, 2, 4, 5], [3]))
