"""A description that cannot be read is buried once and removed: no later start reads it, and a newer one stays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from test_bus_contract import NOW, _true, until
from tests.support.reports import described

from slackwater.bus.codec.cloudevents import Message, encode
from slackwater.bus.consume import dead_letter_store
from slackwater.bus.port import Done, Received, Settlement
from slackwater.events.envelope import Event, event_of
from slackwater.events.node_described import NodeDescribed

CONSUMER = "ingestion-node-described"


def description(node: str) -> Message:
    return encode(event_of(described(node, NOW, cpu_milli=8000), source=f"agent/{node}", time=NOW))


def unreadable(node: str) -> Message:
    return replace(description(node), body=b"{")


async def test_an_unreadable_description_is_removed_once_its_letter_is_stored(given: Any) -> None:
    seen: list[str] = []

    async def handler(batch: Sequence[Received[NodeDescribed]]) -> Sequence[Settlement]:
        seen.extend(received.event.data.facts.name for received in batch)
        return [Done()] * len(batch)

    async def letters() -> int:
        return len(await given.letters())

    async with given.process() as bus:
        for sent in (description("a"), unreadable("b"), unreadable("c"), description("d")):
            await given.inject("STATE", sent)
        await given.inject("STATE", description("c"))
        async with bus.consume(NodeDescribed, CONSUMER, handler):
            await until(lambda: _true(sorted(seen) == ["a", "c", "d"]))
            await until(lambda: letters_are(given, 1))
        assert await letters() == 1
    started = list[str]()

    async def watched(event: Event[NodeDescribed]) -> None:
        started.append(event.data.facts.name)

    async with given.process() as bus, bus.watch(NodeDescribed, watched):
        await until(lambda: _true(sorted(started) == ["a", "c", "d"]))
        assert bus.unread.text() == ""


async def test_one_whose_letter_is_dropped_is_removed_too(given: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """An agent that sends more of them than it has letters leaves none behind."""
    monkeypatch.setattr(dead_letter_store, "LETTERS_AT_ONCE", 1)
    seen: list[str] = []

    async def handler(batch: Sequence[Received[NodeDescribed]]) -> Sequence[Settlement]:
        seen.extend(received.event.data.facts.name for received in batch)
        return [Done()] * len(batch)

    async with given.process() as bus, bus.consume(NodeDescribed, CONSUMER, handler):
        await given.inject("STATE", unreadable("b"))
        await until(lambda: letters_are(given, 1))
        await given.inject("STATE", unreadable("b"))
        await given.inject("STATE", description("a"))
        await until(lambda: _true(seen == ["a"]))
    started = list[str]()

    async def watched(event: Event[NodeDescribed]) -> None:
        started.append(event.data.facts.name)

    async with given.process() as bus, bus.watch(NodeDescribed, watched):
        await until(lambda: _true(started == ["a"]))
        assert bus.unread.text() == ""


async def test_another_consumer_buries_it_and_leaves_it(given: Any) -> None:
    async def handler(batch: Sequence[Received[NodeDescribed]]) -> Sequence[Settlement]:
        return [Done()] * len(batch)

    async with given.process() as bus:
        await given.inject("STATE", unreadable("b"))
        async with bus.consume(NodeDescribed, "colocation-node-described", handler):
            await until(lambda: letters_are(given, 1))

    async def watched(event: Event[NodeDescribed]) -> None:
        raise AssertionError(event)

    async with given.process() as bus, bus.watch(NodeDescribed, watched):
        await until(lambda: _true(bus.unread.text() != ""))


async def letters_are(given: Any, count: int) -> bool:
    return len(await given.letters()) == count
