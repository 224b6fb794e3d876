"""The broker is killed, filled up, emptied: what was acknowledged is found again, and nothing spins."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest
from jetstream_lab import Server
from tests.support.nats_server import purge_broker

from slackwater.bus.admin.streams import load
from slackwater.bus.connect.connections import ended
from slackwater.bus.connect.nats_bus import NatsBus, connect_bus
from slackwater.bus.port import Done, Received, Settlement
from slackwater.events.effect_measured import EffectMeasured
from slackwater.events.envelope import Event, event_of
from slackwater.model.errors import Misconfigured, Unavailable
from slackwater.runtime.embedded_nats import EmbeddedNats

NOW = datetime(2026, 1, 5, tzinfo=UTC)
CONSUMER = "console-effect-measured"


def effect(decision: str) -> Event[EffectMeasured]:
    data = EffectMeasured(
        decision_id=decision,
        node="n",
        metric="prod_cpu_pressure",
        before=0.5,
        after=0.1,
        waterline=0.2,
        relieved=True,
        actuated_at=NOW,
        measured_at=NOW + timedelta(seconds=1),
        seconds_to_actuation=0.1,
        seconds_to_measurement=1,
    )
    return event_of(data, source="test", time=NOW)


class Ledger:
    """What was acknowledged to the publisher, which readers of the same one share, and what the consumer handled."""

    def __init__(self, acked: list[str] | None = None) -> None:
        self.acked: list[str] = [] if acked is None else acked
        self.handled: list[str] = []

    async def handle(self, batch: Sequence[Received[EffectMeasured]]) -> Sequence[Settlement]:
        self.handled.extend(received.event.data.decision_id for received in batch)
        return [Done()] * len(batch)

    async def watched(self, event: Event[EffectMeasured]) -> None:
        self.handled.append(event.data.decision_id)

    async def all_handled(self) -> None:
        async with asyncio.timeout(60):
            while not set(self.acked) <= set(self.handled):
                await asyncio.sleep(0.02)


async def publish_for_ever(bus: object, ledger: Ledger) -> None:
    """As an outbox does: what got no answer is published again as the same event, for it may have been stored."""
    number, event = 0, effect("d0")
    while True:
        try:
            await bus.publish(event)  # type: ignore[attr-defined]  # NatsBus
        except Unavailable:
            await asyncio.sleep(0.02)
            continue
        ledger.acked.append(f"d{number}")
        number += 1
        event = effect(f"d{number}")


async def test_killed_and_restarted_nothing_acknowledged_is_lost_to_any_reader(killable: Server) -> None:
    acked: list[str] = []
    consumed, replayed, watched = Ledger(acked), Ledger(acked), Ledger(acked)
    async with (
        killable.connect(name="test") as bus,
        bus.consume(EffectMeasured, CONSUMER, consumed.handle),
        bus.replay(EffectMeasured, replayed.handle, after_sequence=0),
        bus.watch(EffectMeasured, watched.watched),
    ):
        publisher = asyncio.create_task(publish_for_ever(bus, consumed))
        for _ in range(2):
            await asyncio.sleep(0.3)
            await killable.kill()
            assert not await bus.connected()
            await killable.start()
            before = len(acked)
            async with asyncio.timeout(30):
                while len(acked) < before + 20:
                    await asyncio.sleep(0.02)
        publisher.cancel()
        await asyncio.wait({publisher})
        for ledger in (consumed, replayed, watched):
            await ledger.all_handled()
        assert await bus.connected()
    assert list(dict.fromkeys(replayed.handled)) == replayed.handled, "replay gives everything once and in order"


async def test_what_a_broker_showed_and_then_lost_is_given_once_and_what_took_its_place_is_given(
    killable: Server,
) -> None:
    acked: list[str] = []
    replayed, watched = Ledger(acked), Ledger(acked)
    kept = [effect(f"kept{number}") for number in range(3)]
    lost = [effect(f"lost{number}") for number in range(3)]
    async with (
        killable.connect(name="test") as bus,
        bus.replay(EffectMeasured, replayed.handle, after_sequence=0),
        bus.watch(EffectMeasured, watched.watched),
    ):
        await publish_and_await(bus, replayed, kept)
        await watched.all_handled()
        await killable.kill()
        await killable.keep_disk()
        await killable.start()
        await publish_and_await(bus, replayed, lost)
        await watched.all_handled()
        await killable.lose_power()
        await killable.start()
        await publish_and_await(bus, replayed, [effect("other"), *lost, effect("last")])
        await watched.all_handled()
    expected = ["kept0", "kept1", "kept2", "lost0", "lost1", "lost2", "other", "last"]
    assert (replayed.handled, watched.handled) == (expected, expected)


class Slow:
    """A handler of one process, which keeps the message of one decision in hand until it is released."""

    def __init__(self, decision: str) -> None:
        self.decision = decision
        self.handled: list[str] = []
        self.in_hand, self.released = asyncio.Event(), asyncio.Event()

    async def handle(self, batch: Sequence[Received[EffectMeasured]]) -> Sequence[Settlement]:
        decisions = [received.event.data.decision_id for received in batch]
        if self.decision in decisions:
            self.in_hand.set()
            await self.released.wait()
        self.handled.extend(decisions)
        return [Done()] * len(batch)


async def test_an_answer_for_a_lost_message_does_not_settle_the_one_at_its_sequence_number(killable: Server) -> None:
    spec = load().consumers[CONSUMER].model_copy(update={"ack_wait_seconds": 1.0})
    topology = load().model_copy(update={"consumers": {CONSUMER: spec}})
    first, second = Slow("lost"), Slow("new")
    async with asyncio.timeout(60), killable.connect(name="first", topology=topology) as bus:
        await bus.publish(effect("kept"))
        await killable.kill()
        await killable.keep_disk()
        await killable.start()
        async with bus.consume(EffectMeasured, CONSUMER, first.handle):
            await stored(bus, "lost")
            await first.in_hand.wait()
            await killable.lose_power()
            await killable.start()
            async with (
                killable.connect(name="second", topology=topology) as other,
                other.consume(EffectMeasured, CONSUMER, second.handle),
            ):
                await stored(other, "new")
                await second.in_hand.wait()
                while not await bus.connected():
                    await asyncio.sleep(0.02)
                first.released.set()
                while "lost" not in first.handled:
                    await asyncio.sleep(0.02)
                assert await bus.connected(), "the broker has its answer, if there is one"
            # The second process has ended, and has not handled its message.
            while "new" not in first.handled:
                await asyncio.sleep(0.02)
    assert second.handled == [one for one in second.handled if one == "kept"]


async def stored(bus: NatsBus, decision: str) -> None:
    event = effect(decision)
    while True:
        try:
            await bus.publish(event)
            return
        except Unavailable:
            await asyncio.sleep(0.02)


async def publish_and_await(bus: NatsBus, ledger: Ledger, events: Sequence[Event[EffectMeasured]]) -> None:
    for event in events:
        async with asyncio.timeout(30):
            while True:
                try:
                    await bus.publish(event)
                    break
                except Unavailable:
                    await asyncio.sleep(0.02)
        ledger.acked.append(event.data.decision_id)
    await ledger.all_handled()


async def test_while_the_broker_is_away_consumers_wait_instead_of_spinning(server: EmbeddedNats) -> None:
    ledger = Ledger()
    async with (
        connect_bus(server.url, name="test") as bus,
        bus.consume(EffectMeasured, CONSUMER, ledger.handle),
        bus.watch(EffectMeasured, ledger.watched),
        bus.replay(EffectMeasured, ledger.handle, after_sequence=0),
    ):
        await server.kill()
        await asyncio.sleep(0.2)
        before = time.process_time()
        await asyncio.sleep(1.5)
        used = time.process_time() - before
        with pytest.raises(Unavailable, match="not connected"):
            await bus.publish(effect("d"))
    assert used < 0.75, "half a core for nothing would be a busy loop; a few milliseconds are expected"


async def test_leaving_while_the_broker_is_away_does_not_hang(killable: Server) -> None:
    async with (
        asyncio.timeout(30),
        killable.connect(name="test") as bus,
        bus.consume(EffectMeasured, CONSUMER, Ledger().handle),
    ):
        await killable.kill()


async def test_leaving_just_when_the_broker_goes_is_no_failure() -> None:
    """nats-py sends what is left before it ends its tasks, and raises what the socket says."""

    class Going:
        closed = 0

        async def close(self) -> None:
            self.closed += 1
            if self.closed == 1:
                raise ConnectionResetError("Connection lost")

    going = Going()
    await ended(going)  # type: ignore[arg-type]  # all of the client that is used
    assert going.closed == 2, "what it left undone is done"


async def test_a_broker_that_lost_its_streams_gets_them_declared_again(killable: Server) -> None:
    ledger = Ledger()
    async with killable.connect(name="test") as bus, bus.consume(EffectMeasured, CONSUMER, ledger.handle):
        await bus.publish(effect("before"))
        ledger.acked.append("before")
        await ledger.all_handled()
        await purge_broker(bus)
        async with asyncio.timeout(30):
            while "after" not in ledger.acked:
                try:
                    await bus.publish(effect("after"))
                except Unavailable:
                    await asyncio.sleep(0.05)
                else:
                    ledger.acked.append("after")
        await ledger.all_handled()


async def test_a_publisher_recreates_a_stream_without_readers(killable: Server) -> None:
    async with killable.connect(name="test") as bus:
        await bus.jetstream.delete_stream("DECISIONS")
        with pytest.raises(Unavailable, match="no stream takes"):
            await bus.publish(effect("first"))
        async with asyncio.timeout(30):
            while not await published(bus, effect("second")):
                await asyncio.sleep(0.05)
        assert bus.missing == ""
        assert (await bus.jetstream.stream_info("DECISIONS")).config.storage == "file"


async def test_an_account_that_may_not_create_streams_names_the_missing_one(killable: Server) -> None:
    async with killable.connect(name="test", declares=False) as bus:
        assert not await published(bus, effect("first"))
        assert "sw.v1.effect.measured" in bus.missing
        await bus.declare()
        assert await published(bus, effect("second"))
        assert bus.missing == ""


async def published(bus: NatsBus, event: Event[EffectMeasured]) -> bool:
    try:
        await bus.publish(event)
    except Unavailable:
        return False
    return True


async def test_a_stream_with_another_configuration_stops_no_reader_permanently(killable: Server) -> None:
    """What cannot be declared is the operator's to mend; when it is mended, readers go on without a restart."""
    ledger = Ledger()
    async with killable.connect(name="test") as bus, bus.consume(EffectMeasured, CONSUMER, ledger.handle):
        await publish_and_await(bus, ledger, [effect("before")])
        await bus.jetstream.delete_stream("WINDOWS")
        await bus.jetstream.add_stream(name="WINDOWS", subjects=["sw.v1.usage.windowed.>"], storage="memory")
        await bus.jetstream.delete_stream("DECISIONS")
        await asyncio.sleep(1.0)  # the reader has found its consumer gone, and could not have it declared
        await bus.jetstream.delete_stream("WINDOWS")
        await publish_and_await(bus, ledger, [effect("after")])


async def test_declaring_again_changes_nothing_and_a_changed_limit_is_applied(killable: Server) -> None:
    topology = load()
    larger = topology.streams["WINDOWS"].model_copy(update={"max_bytes": 2_000_000})
    changed = topology.model_copy(update={"streams": {**topology.streams, "WINDOWS": larger}})
    async with killable.connect(name="test") as bus:
        await bus.publish(effect("kept"))
        await bus.declare()
        async with killable.connect(name="other", topology=changed):
            pass
        info = await bus.jetstream.stream_info("WINDOWS")
        assert info.config.max_bytes == 2_000_000
        assert (await bus.jetstream.stream_info("DECISIONS")).state.messages == 1


async def test_a_broker_that_answers_late_is_asked_again(killable: Server) -> None:
    """A request has three seconds. At load 10 a broker took longer for one consumer, and a start failed."""
    async with killable.connect(name="test") as bus:
        await killable.freeze()
        declaring = asyncio.create_task(bus.declare())
        try:
            await asyncio.sleep(4)
        finally:
            killable.resume()
        await declaring


async def test_a_publish_to_a_broker_that_stands_still_fails_and_may_have_been_stored(killable: Server) -> None:
    async with killable.connect(name="test") as bus:
        await killable.freeze()
        try:
            with pytest.raises(Unavailable, match="did not confirm"):
                await bus.publish(event := effect("d"))
            assert not await bus.connected()
        finally:
            killable.resume()
        async with asyncio.timeout(30):
            while not await bus.connected():
                await asyncio.sleep(0.05)
        assert await bus.publish(event) == 1, "the repeated publish is answered with the first position"


async def test_a_change_that_jetstream_cannot_make_is_explained(killable: Server) -> None:
    topology = load()
    moved = topology.streams["WINDOWS"].model_copy(update={"storage": "memory"})
    changed = topology.model_copy(update={"streams": {**topology.streams, "WINDOWS": moved}})
    async with killable.connect(name="test"):
        with pytest.raises(Misconfigured, match=r"stream WINDOWS"):
            async with killable.connect(name="other", topology=changed):
                pass


async def test_without_a_broker_connecting_says_where_it_looked() -> None:
    with pytest.raises(Unavailable, match=r"nats://127\.0\.0\.1:1"):
        async with connect_bus("nats://127.0.0.1:1", name="test", wait_seconds=0.3):
            pass
