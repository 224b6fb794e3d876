"""Poison on every way of reading, over the real bus and its twin: it costs one message, and the others flow."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest
from test_bus_contract import CONSUMER, NOW, Seen, _true, changed, until
from tests.support.reports import report

from slackwater.bus.codec.cloudevents import Message, encode
from slackwater.bus.consume.handlers import each
from slackwater.bus.consume.stats import Counters
from slackwater.bus.port import Done, Received, Settlement
from slackwater.events.envelope import Event, event_of
from slackwater.events.node_liveness_changed import NodeLivenessChanged
from slackwater.events.usage_reported import UsageReported
from slackwater.model.identifiers import new_id

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"


def reported(node: str) -> Message:
    return encode(event_of(report(node, 1, NOW), source=f"agent/{node}", time=NOW, traceparent=TRACE))


def spoilt(node: str, text: bytes) -> Message:
    """A report whose boot id is `text`, whatever that is."""
    good = reported(node)
    whole = json.loads(good.body)
    boot = json.dumps(whole["boot_epoch"]).encode()
    body = json.dumps(whole).encode()
    assert boot in body
    return Message(good.subject, {**good.headers, "ce-id": new_id(), "Nats-Msg-Id": new_id()}, body.replace(boot, text))


SURROGATE = b'"boot \xed\xa0\x80"'
POISON = {"a lone surrogate": SURROGATE, "no UTF-8": b'"\xff\xfe"', "a large integer": b"9" * 5000}


@pytest.mark.parametrize("text", POISON.values(), ids=POISON.keys())
async def test_what_no_decoder_can_read_costs_itself_only(given: Any, text: bytes) -> None:
    seen: list[str] = []

    async def handler(batch: Sequence[Received[UsageReported]]) -> Sequence[Settlement]:
        seen.extend(received.event.data.node for received in batch)
        return [Done()] * len(batch)

    consumer = "ingestion-usage-reported"
    async with given.process() as bus, bus.consume(UsageReported, consumer, handler):
        for number in range(3):
            await given.inject("USAGE", reported(f"good-{number}"))
            await given.inject("USAGE", spoilt("bad", text))
        await until(lambda: _true(len(seen) == 3))
        await until(lambda: _count(given, 3))
        letters = await given.letters()
        assert bus.stats()[consumer].delivered == 6
    assert sorted(seen) == ["good-0", "good-1", "good-2"]
    assert {letter.headers["sw-node"] for letter in letters} == {"bad"}
    assert {letter.headers["traceparent"] for letter in letters} == {TRACE}


async def _count(given: Any, number: int) -> bool:
    return len(await given.letters()) >= number


async def test_a_handler_sees_each_message_twice_at_most_and_good_ones_are_done_at_once(given: Any) -> None:
    batches: list[list[str]] = []
    done: list[str] = []

    async def handler(batch: Sequence[Received[NodeLivenessChanged]]) -> Sequence[Settlement]:
        batches.append([received.event.data.node for received in batch])
        if any(node.startswith("poison") for node in batches[-1]):
            raise OverflowError("int too large to convert")
        done.extend(batches[-1])
        return [Done()] * len(batch)

    nodes = ["a", "poison-1", "b", "poison-2", "c"]
    async with given.process() as bus:
        for node in nodes:
            await bus.publish(changed(node, traceparent=TRACE))
        async with bus.consume(NodeLivenessChanged, CONSUMER, handler):
            await until(lambda: _count(given, 2))
            await until(lambda: _true(len(done) == 3))
    letters = await given.letters()
    assert sorted(done) == ["a", "b", "c"]
    assert all(sum(node in batch for batch in batches) <= 2 for node in nodes)
    assert [letter.headers["sw-node"] for letter in letters] == ["poison-1", "poison-2"]
    assert {letter.headers["sw-reason"] for letter in letters} == {"handler_failed"}
    assert all(letter.headers["sw-detail"].startswith("OverflowError at ") for letter in letters)


async def test_a_replay_goes_on_behind_poison_in_order(given: Any) -> None:
    done: list[str] = []

    async def handler(batch: Sequence[Received[NodeLivenessChanged]]) -> Sequence[Settlement]:
        nodes = [received.event.data.node for received in batch]
        if "poison" in nodes:
            raise OverflowError("int too large to convert")
        done.extend(nodes)
        return [Done()] * len(batch)

    async with given.process() as bus:
        for node in ("a", "poison", "b", "c"):
            await bus.publish(changed(node))
        async with bus.replay(NodeLivenessChanged, handler, after_sequence=0):
            await until(lambda: _true(len(done) == 3))
            await until(lambda: _count(given, 1))
    assert done == ["a", "b", "c"]
    assert [letter.headers["sw-node"] for letter in await given.letters()] == ["poison"]


async def test_a_watch_and_a_look_go_on_behind_poison(given: Any) -> None:
    shown: list[str] = []

    async def show(event: Event[NodeLivenessChanged]) -> None:
        if event.data.node == "poison":
            raise KeyError("defect")
        shown.append(event.data.node)

    broken = encode(changed("broken"))
    async with (
        given.process() as bus,
        bus.watch(NodeLivenessChanged, show),
        bus.follow([NodeLivenessChanged], after={"STATE": 0}) as following,
    ):
        await given.inject(
            "STATE", Message(broken.subject, {**broken.headers, "ce-time": "0001-01-01"}, b"\xed\xa0\x80")
        )
        await bus.publish(changed("poison"))
        await bus.publish(changed("good"))
        await until(lambda: _true(bool(shown)))
        keys: list[str] = []
        async with asyncio.timeout(30):
            while "good" not in keys:
                keys += [item.key for item in await following.next()]
    assert shown == ["good"]
    assert keys == ["poison", "good"]


def settled(counters: Counters) -> int:
    return counters.undecodable + counters.done


async def test_one_node_does_not_fill_the_dead_letters_and_its_messages_are_settled(given: Any) -> None:
    async with given.process() as bus:
        for _ in range(40):
            await given.inject("USAGE", spoilt("bad", b"1"))
        for number in range(3):
            await given.inject("USAGE", spoilt(f"n{number}", b"1"))
        seen = Seen()
        consumer = "ingestion-usage-reported"
        async with bus.consume(UsageReported, consumer, seen):
            await until(lambda: _true(settled(bus.stats()[consumer]) == 43))
        # Leaving has waited for the batch in hand.
        stats = bus.stats()[consumer]
        assert stats.letters_dropped == stats.undecodable - 23, "others are above the agent's rate, and left unread"
    nodes = [letter.headers["sw-node"] for letter in await given.letters()]
    assert nodes.count("bad") == 20
    assert sorted(set(nodes)) == ["bad", "n0", "n1", "n2"]


async def test_a_failure_of_one_event_is_a_letter_of_one_event_with_each(given: Any) -> None:
    tried: list[str] = []

    async def handle(received: Received[NodeLivenessChanged]) -> None:
        tried.append(received.event.data.node)
        if received.event.data.node == "poison":
            raise ZeroDivisionError("division by zero")

    async with given.process() as bus:
        for node in ("a", "poison", "b"):
            await bus.publish(changed(node))
        async with bus.consume(NodeLivenessChanged, CONSUMER, each(handle)):
            await until(lambda: _count(given, 1))
            await until(lambda: _true(tried.count("b") == 1))
    assert tried == ["a", "poison", "poison", "b"]
