"""The feed and its server-sent events, in virtual time."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

import pytest

from slackwater.console.adapters.feed import LocalFeed
from slackwater.console.edge.stream import frame, server_sent_events
from slackwater.console.ports import News
from slackwater.testing.clock import FakeClock


def news(number: int, type_: str = "usage.reported", node: str = "edge-7") -> News:
    return News(str(number), type_, node, {"number": number})


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def take(source: AsyncIterator[News], count: int) -> list[str]:
    return [(await anext(source)).id for _ in range(count)]


async def test_a_listener_hears_what_comes_after_it_began() -> None:
    feed = LocalFeed()
    feed.publish([news(1)])
    source = feed.subscribe()
    waiting = asyncio.ensure_future(take(source, 2))
    await settle()
    feed.publish([news(2), news(3)])
    assert await waiting == ["2", "3"]
    await source.aclose()  # type: ignore[attr-defined]  # it is a generator
    assert feed.listeners == 0


async def test_resuming_repeats_nothing_and_misses_nothing() -> None:
    feed = LocalFeed()
    feed.publish([news(number) for number in range(1, 6)])
    assert await take(feed.subscribe("3"), 2) == ["4", "5"]


async def test_resuming_from_what_is_forgotten_says_so() -> None:
    feed = LocalFeed(memory=2)
    feed.publish([news(number) for number in range(1, 6)])
    first = await anext(feed.subscribe("1"))
    assert first.type == "lost"


async def test_a_slow_listener_is_told_that_it_lost_something_and_gets_the_newest() -> None:
    feed = LocalFeed(queue=3)
    source = feed.subscribe()
    waiting = asyncio.ensure_future(anext(source))
    await settle()
    feed.publish([news(number) for number in range(1, 11)])
    found = [await waiting] + [await anext(source) for _ in range(2)]
    assert [each.type for each in found] == ["lost", "usage.reported", "usage.reported"]
    assert [each.id for each in found[1:]] == ["9", "10"]


async def test_closing_ends_listeners_and_lets_new_ones_in() -> None:
    feed = LocalFeed()
    waiting = asyncio.ensure_future(anext(feed.subscribe(), None))
    await settle()
    feed.close()
    assert await waiting is None
    again = asyncio.ensure_future(take(feed.subscribe(), 1))
    await settle()
    feed.publish([news(7)])
    assert await again == ["7"]


async def test_frames_carry_id_type_and_one_line_of_json() -> None:
    lines = frame(News("9", "decision.recorded", "n", {"text": "two\nlines"})).decode().split("\n")
    assert lines[:2] == ["id: 9", "event: decision.recorded"]
    assert json.loads(lines[2].removeprefix("data: "))["data"] == {"text": "two\nlines"}
    assert lines[3:] == ["", ""]


@pytest.mark.parametrize(
    ("types", "node", "expected"),
    [
        (frozenset[str](), None, ["1", "2", "3"]),
        (frozenset({"decision.recorded"}), None, ["2"]),
        (frozenset[str](), "edge-8", ["3"]),
    ],
)
async def test_the_stream_keeps_to_its_filters(types: frozenset[str], node: str | None, expected: list[str]) -> None:
    feed = LocalFeed()
    feed.publish([news(0), news(1), news(2, "decision.recorded"), news(3, node="edge-8")])
    source = server_sent_events(feed, FakeClock(), types, node, "0", 15)
    found = [await anext(source) for _ in range(1 + len(expected))]
    assert found[0].startswith(b"retry:")
    assert [part.split(b"\n")[0].removeprefix(b"id: ").decode() for part in found[1:]] == expected
    await source.aclose()  # type: ignore[attr-defined]  # it is a generator
    assert feed.listeners == 0


async def test_a_silent_stream_beats_and_then_still_delivers() -> None:
    feed, clock = LocalFeed(), FakeClock()
    source = server_sent_events(feed, clock, frozenset(), None, None, 15)
    await anext(source)
    for _ in range(2):
        beat = asyncio.ensure_future(anext(source))
        await settle()
        await clock.advance(15)
        assert await beat == b": alive\n\n"
    following = asyncio.ensure_future(anext(source))
    await settle()
    feed.publish([news(1)])
    assert (await following).startswith(b"id: 1")
    feed.close()
    assert await anext(source, None) is None
