"""What every bus promises; run over the real one and over its twin in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from slackwater.bus.codec.cloudevents import Message, encode
from slackwater.bus.consume.handlers import each
from slackwater.bus.port import Done, Received, Reject, Retry, Settlement
from slackwater.events.envelope import Event, event_of
from slackwater.events.intent_declared import IntentDeclared
from slackwater.events.node_liveness_changed import NodeLivenessChanged
from slackwater.model.errors import InvalidInput, Misconfigured, Unavailable
from slackwater.model.nodes import Liveness

NOW = datetime(2026, 1, 5, tzinfo=UTC)
CONSUMER = "console-node-liveness-changed"


def changed(node: str, *, at: int = 0, **attributes: Any) -> Event[NodeLivenessChanged]:
    moment = NOW.replace(second=at)
    data = NodeLivenessChanged(
        node=node, liveness=Liveness.STALE, previous=Liveness.FRESH, last_report_at=NOW, changed_at=moment
    )
    return event_of(data, source="test", time=moment, **attributes)


class Seen:
    """A handler that records its batches and returns the configured settlements."""

    def __init__(self, answer: Callable[[Received[NodeLivenessChanged]], Settlement] = lambda _: Done()) -> None:
        self.received: list[Received[NodeLivenessChanged]] = []
        self._answer = answer
        self._more = asyncio.Event()

    @property
    def nodes(self) -> list[str]:
        return [received.event.data.node for received in self.received]

    async def __call__(self, batch: Sequence[Received[NodeLivenessChanged]]) -> Sequence[Settlement]:
        self.received.extend(batch)
        self._more.set()
        return [self._answer(received) for received in batch]

    async def count(self, wanted: int) -> None:
        async with asyncio.timeout(60):
            while len(self.received) < wanted:
                self._more.clear()
                await self._more.wait()


async def until(condition: Callable[[], Awaitable[Any]]) -> Any:
    async with asyncio.timeout(60):
        while True:
            found = await condition()
            if found:
                return found
            await asyncio.sleep(0.01)


async def test_what_is_done_is_not_delivered_again(given: Any) -> None:
    seen = Seen()
    async with given.process() as bus:
        await bus.publish(changed("a"))
        async with bus.consume(NodeLivenessChanged, CONSUMER, seen):
            await seen.count(1)
        async with bus.consume(NodeLivenessChanged, CONSUMER, seen):
            await bus.publish(changed("b"))
            await seen.count(2)
        assert seen.nodes == ["a", "b"]
        assert bus.stats()[CONSUMER].done == 2
    assert await given.letters() == []


async def test_what_is_to_be_retried_comes_again_and_counts_its_deliveries(given: Any) -> None:
    seen = Seen(lambda received: Retry("not yet") if received.deliveries == 1 else Done())
    async with given.process() as bus, bus.consume(NodeLivenessChanged, CONSUMER, seen):
        await bus.publish(changed("a"))
        await seen.count(2)
    assert [received.deliveries for received in seen.received] == [1, 2]
    assert await given.letters() == []


async def test_an_explicit_delay_is_kept(given: Any) -> None:
    times: list[float] = []

    def answer(received: Received[NodeLivenessChanged]) -> Settlement:
        times.append(asyncio.get_running_loop().time())
        return Retry("later", 0.3) if received.deliveries == 1 else Done()

    seen = Seen(answer)
    async with given.process() as bus, bus.consume(NodeLivenessChanged, CONSUMER, seen):
        await bus.publish(changed("a"))
        await seen.count(2)
    assert times[1] - times[0] >= 0.29


async def test_a_rejected_message_is_in_the_dead_letters_with_its_reason_and_body(given: Any) -> None:
    seen = Seen(lambda _: Reject("clock_skew", "three hours\nahead"))
    event = changed("a")
    async with given.process() as bus, bus.consume(NodeLivenessChanged, CONSUMER, seen):
        await bus.publish(event)
        letters = await until(given.letters)
    assert bus.stats()[CONSUMER].rejected == 1, "leaving waits for the batch in hand"
    assert len(letters) == 1
    assert letters[0].subject == f"sw.v1.dlq.{CONSUMER}"
    assert letters[0].body == encode(event).body
    headers = letters[0].headers
    assert headers["sw-reason"] == "clock_skew"
    assert headers["sw-detail"] == "three hours ahead"
    assert headers["sw-consumer"] == CONSUMER
    assert headers["sw-subject"] == event.subject
    assert headers["sw-stream-sequence"] == "1"
    assert headers["ce-id"] == event.id


@pytest.mark.parametrize(
    ("change", "body", "reason"),
    [
        ({}, b"{ not json", "malformed_json"),
        ({}, b'{"node": 1}', "invalid_payload"),
        ({"ce-id": ""}, None, "missing_attribute"),
        ({"ce-type": "io.slackwater.node.liveness_changed.v9"}, None, "wrong_version"),
        ({"ce-type": "org.example.other.v1"}, None, "unknown_type"),
    ],
)
async def test_a_malformed_message_never_blocks(given: Any, change: Any, body: bytes | None, reason: str) -> None:
    good = encode(changed("bad"))
    headers = {k: v for k, v in {**good.headers, **change}.items() if v}
    seen = Seen()
    async with given.process() as bus, bus.consume(NodeLivenessChanged, CONSUMER, seen):
        await given.inject("STATE", Message(good.subject, headers, good.body if body is None else body))
        await bus.publish(changed("good"))
        await seen.count(1)
        letters = await until(given.letters)
    assert seen.nodes == ["good"]
    assert [letter.headers["sw-reason"] for letter in letters] == [reason]


async def test_when_the_handler_raises_its_message_is_tried_once_more(
    given: Any, caplog: pytest.LogCaptureFixture
) -> None:
    def answer(received: Received[NodeLivenessChanged]) -> Settlement:
        if received.deliveries == 1:
            raise RuntimeError("defect")
        return Done()

    seen = Seen(answer)
    async with given.process() as bus, bus.consume(NodeLivenessChanged, CONSUMER, seen):
        await bus.publish(changed("a"))
        await seen.count(2)
        assert bus.stats()[CONSUMER].handler_failures == 1
    assert await given.letters() == []
    assert "defect" in caplog.text


async def test_an_invalid_message_affects_no_other_message(given: Any) -> None:
    done: list[str] = []

    async def handler(batch: Sequence[Received[NodeLivenessChanged]]) -> Sequence[Settlement]:
        if any(received.event.data.node == "poison" for received in batch):
            raise RuntimeError("defect")
        done.extend(received.event.data.node for received in batch)
        return [Done()] * len(batch)

    async with given.process() as bus:
        for node in ("a", "poison", "b"):
            await bus.publish(changed(node))
        async with bus.consume(NodeLivenessChanged, CONSUMER, handler):
            letters = await until(given.letters)
            await until(lambda: _true(len(done) == 2))
    assert done == ["a", "b"]
    assert [letter.headers["sw-reason"] for letter in letters] == ["handler_failed"]


async def _true(value: bool) -> bool:
    return value


async def test_after_max_deliver_a_message_is_a_dead_letter(given: Any) -> None:
    seen = Seen(lambda _: Retry("the database is away"))
    async with given.process() as bus, bus.consume(NodeLivenessChanged, CONSUMER, seen):
        await bus.publish(changed("a"))
        letters = await until(given.letters)
    assert [received.deliveries for received in seen.received] == [1, 2, 3]
    assert letters[0].headers["sw-reason"] == "max_deliver"
    assert "the database is away" in letters[0].headers["sw-detail"]


async def test_the_same_event_published_twice_is_stored_once(given: Any) -> None:
    seen = Seen()
    event = changed("a")
    async with given.process() as bus, bus.consume(NodeLivenessChanged, CONSUMER, seen):
        await bus.publish(event)
        await bus.publish(event)
        await bus.publish(changed("b"))
        await seen.count(2)
    assert seen.nodes == ["a", "b"]


async def test_attributes_and_the_key_of_the_subject_arrive(given: Any) -> None:
    seen = Seen()
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    event = changed("node.with dots/ü", causedby="cause", traceparent=trace)
    before = datetime.now(UTC).timestamp()
    async with given.process() as bus, bus.consume(NodeLivenessChanged, CONSUMER, seen):
        await bus.publish(event)
        await seen.count(1)
    (received,) = seen.received
    assert received.event == event
    assert received.subject_key == "node.with dots/ü"
    assert received.stream_sequence == 1
    assert before - 0.01 <= received.stored_at_seconds <= datetime.now(UTC).timestamp() + 0.01


async def test_a_body_that_contradicts_its_subject_is_only_a_dead_letter(given: Any) -> None:
    consumed, replayed = Seen(), Seen()
    watched: list[str] = []

    async def watch(event: Event[NodeLivenessChanged]) -> None:
        watched.append(event.data.node)

    own, other = encode(changed("mallory")), encode(changed("alice"))
    async with (
        given.process() as bus,
        bus.consume(NodeLivenessChanged, CONSUMER, consumed),
        bus.replay(NodeLivenessChanged, replayed, after_sequence=0),
        bus.watch(NodeLivenessChanged, watch),
    ):
        await given.inject("STATE", Message(own.subject, other.headers, other.body))
        await bus.publish(changed("bob"))
        await consumed.count(1)
        await replayed.count(1)
        await until(lambda: _true(watched != []))
        letters = await given.letters()
    assert consumed.nodes == replayed.nodes == watched == ["bob"]
    assert {letter.headers["sw-reason"] for letter in letters} == {"wrong_subject"}
    assert {letter.headers["sw-subject"] for letter in letters} == {own.subject}


async def test_order_is_kept_per_subject(given: Any) -> None:
    seen = Seen()
    async with given.process() as bus, bus.consume(NodeLivenessChanged, CONSUMER, seen, batch=7):
        for second in range(30):
            await bus.publish(changed(f"n{second % 3}", at=second))
        await until(lambda: _true(seen.received != [] and seen.received[-1].event.data.changed_at.second == 29))
    for node in ("n0", "n1", "n2"):
        seconds = [r.event.data.changed_at.second for r in seen.received if r.event.data.node == node]
        assert seconds == sorted(seconds)


async def test_a_consumer_resumes_where_its_process_ended(given: Any) -> None:
    first, second = Seen(), Seen()
    async with given.process() as bus, bus.consume(NodeLivenessChanged, CONSUMER, first):
        await bus.publish(changed("a"))
        await first.count(1)
    async with given.process() as bus:
        await bus.publish(changed("b"))
    async with given.process() as bus, bus.consume(NodeLivenessChanged, CONSUMER, second):
        await second.count(1)
    assert (first.nodes, second.nodes) == (["a"], ["b"])


async def test_leaving_waits_for_the_batch_in_hand(given: Any) -> None:
    entered, finished = asyncio.Event(), []

    async def slow(received: Received[NodeLivenessChanged]) -> None:
        entered.set()
        await asyncio.sleep(0.2)
        finished.append(received.event.data.node)

    async with given.process() as bus:
        async with bus.consume(NodeLivenessChanged, CONSUMER, each(slow)):
            await bus.publish(changed("a"))
            await entered.wait()
        assert finished == ["a"]
        assert bus.stats()[CONSUMER].done == 1


async def test_each_turns_errors_into_verdicts(given: Any) -> None:
    tried: list[str] = []

    async def handle(received: Received[NodeLivenessChanged]) -> None:
        node = received.event.data.node
        tried.append(node)
        if node == "invalid":
            raise InvalidInput("negative usage", code="negative")
        if node == "away" and received.deliveries == 1:
            raise Unavailable("no database")

    async with given.process() as bus, bus.consume(NodeLivenessChanged, CONSUMER, each(handle)):
        await bus.publish(changed("invalid"))
        await bus.publish(changed("away"))
        await until(lambda: _true(tried.count("away") == 2))
        letters = await until(given.letters)
    assert [letter.headers["sw-reason"] for letter in letters] == ["negative"]
    assert tried.count("invalid") == 1


async def test_a_consumer_that_is_not_declared_is_refused(given: Any) -> None:
    async with given.process() as bus:
        with pytest.raises(Misconfigured, match="nobody"):
            async with bus.consume(NodeLivenessChanged, "nobody", Seen()):
                pass


async def test_watch_gives_the_last_values_and_then_every_change(given: Any) -> None:
    got: list[tuple[str, int]] = []

    async def note(event: Event[NodeLivenessChanged]) -> None:
        got.append((event.data.node, event.data.changed_at.second))

    async with given.process() as bus:
        for second, node in enumerate(["a", "b", "a"]):
            await bus.publish(changed(node, at=second))
        async with bus.watch(NodeLivenessChanged, note):
            await until(lambda: _true(len(got) == 2))
            await bus.publish(changed("b", at=10))
            await until(lambda: _true(len(got) == 3))
    assert got == [("b", 1), ("a", 2), ("b", 10)]


async def test_a_watch_says_at_once_that_nothing_is_stored_and_when_all_that_is_was_delivered(given: Any) -> None:
    seen: list[str] = []

    async def note(event: Event[NodeLivenessChanged]) -> None:
        seen.append(event.data.node)

    async with given.process() as bus:
        async with bus.watch(NodeLivenessChanged, note, caught_up=lambda: seen.append("all")):
            await until(lambda: _true(seen == ["all"]))
        seen.clear()
        for node in ("a", "b"):
            await bus.publish(changed(node))
        async with bus.watch(NodeLivenessChanged, note, caught_up=lambda: seen.append("all")):
            await until(lambda: _true("all" in seen))
    assert sorted(seen[: seen.index("all")]) == ["a", "b"]


async def test_watch_of_a_key_sees_that_key_and_what_is_below_it(given: Any) -> None:
    got: list[str] = []

    async def note(event: Event[Any]) -> None:
        got.append(event.data.key())

    def intent(node: str, writer: str) -> Event[IntentDeclared]:
        data = IntentDeclared(node=node, writer=writer, generation=1, declared_at=NOW, lease_seconds=30)
        return event_of(data, source="test", time=NOW)

    async with (
        given.process() as bus,
        bus.watch(IntentDeclared, note, key="n.1"),
        bus.watch(NodeLivenessChanged, note, key="n.1"),
    ):
        await bus.publish(intent("n.1", "ensurance"))
        await bus.publish(intent("n.10", "ensurance"))
        await bus.publish(changed("n.10"))
        await bus.publish(changed("n.1"))
        await until(lambda: _true(len(got) == 2))
    assert sorted(got) == ["n.1", "n.1/ensurance"]


async def test_replay_starts_behind_the_position_and_goes_on_live(given: Any) -> None:
    seen = Seen()
    async with given.process() as bus:
        for node in ("a", "b", "c"):
            await bus.publish(changed(node))
        async with bus.replay(NodeLivenessChanged, seen, after_sequence=1):
            await seen.count(2)
            await bus.publish(changed("d"))
            await seen.count(3)
    assert seen.nodes == ["b", "c", "d"]
    assert [received.stream_sequence for received in seen.received] == [2, 3, 4]


async def test_replay_keeps_the_order_when_something_must_be_retried(given: Any) -> None:
    handled: list[str] = []
    refused: list[str] = []

    async def handler(batch: Sequence[Received[NodeLivenessChanged]]) -> Sequence[Settlement]:
        for position, received in enumerate(batch):
            if received.event.data.node == "b" and not refused:
                refused.append("b")
                return [Done()] * position + [Retry("not yet")] * (len(batch) - position)
            handled.append(received.event.data.node)
        return [Done()] * len(batch)

    async with given.process() as bus:
        for node in ("a", "b", "c"):
            await bus.publish(changed(node))
        async with bus.replay(NodeLivenessChanged, handler, after_sequence=0):
            await until(lambda: _true(len(handled) == 3))
    assert handled == ["a", "b", "c"]


async def test_replay_buries_what_it_cannot_read_and_goes_on(given: Any) -> None:
    seen = Seen()
    broken = encode(changed("a"))
    async with given.process() as bus:
        await given.inject("STATE", Message(broken.subject, broken.headers, b"?"))
        await bus.publish(changed("b"))
        async with bus.replay(NodeLivenessChanged, seen, after_sequence=0):
            await seen.count(1)
            letters = await until(given.letters)
    assert seen.nodes == ["b"]
    assert letters[0].headers["sw-reason"] == "malformed_json"


async def test_it_says_that_it_is_connected(given: Any) -> None:
    async with given.process() as bus:
        assert await bus.connected()
