"""Administration of a real broker: consumer lag, dead letters, and their replay."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import anyio
from tests.support.clock import EPOCH

from slackwater.bus.codec.cloudevents import MESSAGE_ID, encode
from slackwater.bus.connect.nats_bus import NatsBus
from slackwater.bus.consume.dead_letters import DeadLetter
from slackwater.bus.port import Done, Received, Settlement
from slackwater.events.effect_measured import EffectMeasured
from slackwater.events.envelope import Event, event_of, subjects_of
from slackwater.events.node_liveness_changed import NodeLivenessChanged
from slackwater.model.nodes import Liveness

CONSUMER = "console-effect-measured"


def effect(number: int) -> Event[EffectMeasured]:
    data = EffectMeasured(
        decision_id=f"d{number}",
        node="edge-7",
        metric="prod_cpu_pressure",
        before=0.2,
        after=0.1,
        waterline=0.12,
        relieved=True,
        actuated_at=EPOCH,
        measured_at=EPOCH,
        seconds_to_actuation=0.1,
        seconds_to_measurement=5.0,
    )
    return event_of(data, source="test", time=EPOCH)


def letter(event: Event[EffectMeasured], position: int = 1) -> DeadLetter:
    message = encode(event)
    return DeadLetter(CONSUMER, "invalid_payload", "why", message.subject, message.headers, message.body, position)


async def test_letters_are_found_newest_first_across_holes(bus: NatsBus) -> None:
    desk = bus.desk()
    assert await desk.letters() == []
    assert await desk.letter(1) is None
    events = [effect(number) for number in range(5)]
    for number, event in enumerate(events):
        await bus.bury(letter(event, number))
    assert await bus.jetstream.delete_msg("DLQ", 3)
    assert [each.position for each in await desk.letters()] == [5, 4, 2, 1]
    assert [each.position for each in await desk.letters(before=4, limit=1)] == [2]
    assert await desk.letter_count() == 4
    found = await desk.letter(5)
    assert found is not None
    assert (found.event_id, found.reason, found.consumer) == (events[4].id, "invalid_payload", CONSUMER)
    assert found.buried_at is not None
    assert await desk.letter(3) is None


async def test_headers_that_are_not_ascii_are_text_like_all_others(bus: NatsBus) -> None:
    """One letter of a stranger must not make all letters unreadable."""
    headers = {"ce-id": "ééé", "ce-type": "größer"}
    await bus.bury(DeadLetter(CONSUMER, "unknown_type", "why", "sw.v1.effect.measured.3.x", headers, b"", 1))
    desk = bus.desk()
    (found,) = await desk.letters()
    assert (found.event_id, found.event_type, found.identity) == ("ééé", "größer", f"{CONSUMER}:1:ééé")
    assert {type(text) for text in found.headers.values()} == {str}
    await bus.jetstream.publish("sw.v1.effect.measured.3.x", b"{}", headers={"ce-id": "ééé"})
    newest = await desk.newest_on("sw.v1.effect.measured.3.x")
    assert newest is not None
    assert newest.event_id == "ééé"


async def test_what_is_put_back_reaches_the_consumer_once_with_its_own_event_id(bus: NatsBus) -> None:
    event, seen = effect(1), list[str]()
    arrived = asyncio.Event()

    async def handle(batch: Sequence[Received[EffectMeasured]]) -> Sequence[Settlement]:
        seen.extend(received.event.id for received in batch)
        arrived.set()
        return [Done()] * len(batch)

    await bus.bury(letter(event))
    desk = bus.desk()
    (found,) = await desk.letters()
    for _ in range(2):  # asked twice for the same replay: the broker drops the second
        await desk.put_back(found.again("replay-1"))
    async with bus.consume(EffectMeasured, CONSUMER, handle):
        with anyio.fail_after(60):
            await arrived.wait()
    assert seen == [event.id]
    stored = await bus.jetstream.get_msg("DECISIONS", seq=1)
    headers = stored.headers or {}
    assert headers[MESSAGE_ID] == "replay-1"
    assert headers["sw-replayed-from"] == "1"
    assert "sw-reason" not in headers


async def test_the_desk_sees_how_far_consumers_are(bus: NatsBus) -> None:
    for number in range(3):
        await bus.publish(effect(number))
    states = {state.name: state for state in await bus.desk().consumers()}
    assert states[CONSUMER].pending == 3
    assert states[CONSUMER].stream == "DECISIONS"
    assert states["ingestion-usage-reported"].pending == 0


async def test_the_desk_knows_what_is_in_force_on_a_subject(bus: NatsBus) -> None:
    desk = bus.desk()
    data = NodeLivenessChanged(
        node="edge-7", liveness=Liveness.FRESH, previous=None, last_report_at=EPOCH, changed_at=EPOCH
    )
    event = event_of(data, source="test", time=EPOCH)
    assert await desk.newest_on(event.subject) is None
    assert await desk.newest_on("nowhere.at.all") is None
    await bus.publish(event)
    newest = await desk.newest_on(event.subject)
    assert newest is not None
    assert (newest.event_id, newest.last_value_only) == (event.id, True)
    assert await desk.last_body(subjects_of(NodeLivenessChanged)) == encode(event).body
    await bus.publish(effect(1))
    other = await desk.newest_on(effect(1).subject)
    assert other is not None
    assert other.last_value_only is False
