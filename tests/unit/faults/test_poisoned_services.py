"""Poison beside honest messages in one batch, for every service: the honest ones are handled at once, and only poison
becomes a dead letter."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import timedelta
from functools import cache
from itertools import count, islice
from typing import Any

import pytest
from poisoned_services import SERVICES, ingestion
from tests.faults.mutations import Mutation, mutations_of
from tests.faults.poison import NODE, stream_of, valid_events
from tests.support.broker import MemoryBroker, StreamRefusal
from tests.support.bus import MemoryBus
from tests.support.clock import EPOCH, FakeClock

from slackwater.bus.admin.streams import load
from slackwater.bus.codec.cloudevents import Message
from slackwater.events.envelope import Event, Payload
from slackwater.events.node_described import NodeDescribed
from slackwater.events.registry import EVENTS
from slackwater.events.usage_reported import UsageReported
from slackwater.events.usage_windowed import UsageWindowed
from slackwater.model.identifiers import new_id

HONEST = "honest"
ROUNDS = 2
"""Each puts one mutation of each family into one batch, with honest messages before, between and behind."""
AT_ONCE = 6


class CountingBroker(MemoryBroker):
    """Notes what was put off: each is delivered again."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(clock=clock)
        self.put_off: Counter[str] = Counter()

    def postpone(self, name: str, sequence: int, seconds: float) -> None:
        message = self._streams[self.topology.stream_of(name.rsplit("-p", 1)[0])].messages.get(sequence)
        if message is not None:
            self.put_off[f"{name} {message.headers.get('ce-id', '')}"] += 1
        super().postpone(name, sequence, seconds)


def honest_events(payload: type[Payload]) -> Iterator[Event[Any]]:
    """Valid events of one node, each a new one: the next report, the next window, or the same said again."""
    event = valid(HONEST)[payload]
    for number in count(1):
        changes: dict[str, Any] = {}
        if payload is UsageReported:
            changes = {"sequence": number, "boot_epoch": "honest", "sampled_at": EPOCH + timedelta(milliseconds=number)}
        elif payload is UsageWindowed:
            changes = {"number": event.data.number + number}
        yield event.model_copy(update={"id": new_id(), "data": event.data.model_copy(update=changes)})


def events_of(service: str) -> list[type[Payload]]:
    read = {spec.event for name, spec in load().consumers.items() if name.split("-")[0] == service}
    return [
        payload for payload in EVENTS if payload.TYPE in read or (service, payload) == ("prediction", UsageWindowed)
    ]


@cache
def valid(node: str) -> dict[type[Payload], Event[Any]]:
    return valid_events(EPOCH, node)


@cache
def mutations(payload: type[Payload]) -> Sequence[Mutation]:
    return mutations_of(valid(NODE)[payload])


def put_in(broker: MemoryBroker, message: Mutation) -> None:
    with suppress(StreamRefusal):  # beyond the size of its stream: no consumer reads it
        broker.store(message.payload.STREAM, Message(message.subject, message.headers, message.body))


def families_of(payload: type[Payload]) -> int:
    return len({mutation.family for mutation in mutations(payload)})


CASES = [(service, payload) for service in SERVICES for payload in events_of(service)]


@pytest.mark.parametrize(("service", "payload"), CASES, ids=lambda value: getattr(value, "TYPE", value))
async def test_only_poison_becomes_a_dead_letter_and_nothing_waits_for_it(service: str, payload: type[Payload]) -> None:
    clock = FakeClock(EPOCH + timedelta(seconds=1))
    broker = CountingBroker(clock)
    bus, honest = MemoryBus(broker, clock=clock), honest_events(payload)
    sent: list[Event[Any]] = []
    poison: list[Mutation] = []
    async with SERVICES[service](bus, clock):
        for node in (NODE, HONEST):
            await bus.publish(valid(node)[NodeDescribed].model_copy(update={"id": new_id()}))
        await bus.idle()
        waiting = stream_of(mutations(payload))
        for _ in range(families_of(payload) * ROUNDS // AT_ONCE):
            for mutation in islice(waiting, AT_ONCE):
                sent.append(next(honest))
                await bus.publish(sent[-1])
                put_in(broker, mutation)
                poison.append(mutation)
            await bus.idle()
        for _ in range(40):
            await clock.advance(5)
            await bus.idle()
    letters = Counter(letter.headers.get("ce-id", "") for letter in bus.dead_letters)
    known = {event.id for event in sent}
    assert not known & set(letters), "an honest message is a dead letter"
    honest_put_off = [name for name in broker.put_off if name.split(" ")[1] in known]
    assert not honest_put_off, f"{len(honest_put_off)} honest messages were delivered again"
    left = {name: broker.consumer_state(name).unsettled for name in broker.topology.consumers
            if name.startswith(f"{service}-")}  # fmt: skip
    assert not any(left.values()), left
    assert all(letter.reason != "max_deliver" for letter in bus.dead_letters), "one was tried until the end"


async def test_usage_beyond_the_described_capacity_is_refused_by_ingestion() -> None:
    """10^9 cores fit every column; the machine has eight."""
    clock = FakeClock(EPOCH + timedelta(seconds=1))
    bus = MemoryBus(clock=clock)
    implausible = [m for m in mutations(UsageReported) if m.family == "implausible: 10^9 cores"]
    usage = [m for m in implausible if "_usage.cpu_milli" in m.what or "pods.0.usage.cpu_milli" in m.what]
    honest = honest_events(UsageReported)
    async with ingestion(bus, clock) as books:
        for node in (NODE, HONEST):
            await bus.publish(valid(node)[NodeDescribed].model_copy(update={"id": new_id()}))
        await bus.idle()
        for mutation in usage:
            put_in(bus.broker, mutation)
            await bus.publish(next(honest))
        await bus.idle()
        await clock.advance(60)
        await bus.idle()
    stored = Counter(row.report.node for row in books.rows)
    assert stored == {HONEST: len(usage)}, "a node of eight cores used a thousand million"
