"""The rules of decision 0018 for each kind of handler and reader: a failure costs the message at fault and no other."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, repeat

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_handlers import message
from test_settlement import SPEC, Letters
from tests.support.clock import FakeClock

from slackwater.bus.consume.handlers import CONFLICT_SECONDS, Holding, all_or_split, each
from slackwater.bus.consume.settlement import Settler
from slackwater.bus.consume.stats import Counters
from slackwater.bus.port import BatchHandler, Done, Received, Settlement
from slackwater.bus.read.replay import MOST_TRIES, Replayer
from slackwater.events.node_liveness_changed import NodeLivenessChanged
from slackwater.model.errors import Conflict, Fenced, InvalidInput, Unavailable

One = Received[NodeLivenessChanged]
GOOD, DEFECT, REFUSED, CONFLICT, AWAY, MACHINE = "good", "defect", "refused", "conflict", "away", "machine"
FATES = (GOOD, DEFECT, REFUSED, CONFLICT, AWAY, MACHINE)
KINDS = ("each", "all_or_split", "holding")


def raised_by(fate: str) -> Exception | None:
    return {
        GOOD: None,
        DEFECT: ZeroDivisionError("defect"),
        REFUSED: InvalidInput("refused", code="refused"),
        CONFLICT: Conflict("changed meanwhile"),
        AWAY: Unavailable("no database"),
        MACHINE: MemoryError(),
    }[fate]


@dataclass
class Service:
    """A handler in one transaction per call: the numbers that a call commits are all of its batch, or none. The n-th
    time that a message is in a batch it meets the n-th of its fates, and then what is good."""

    fates: dict[int, Sequence[str]]
    committed: list[int] = field(default_factory=list)
    tries: dict[int, int] = field(default_factory=dict)
    deliveries: dict[int, list[int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._next: dict[int, Iterator[str]] = {n: chain(fates, repeat(GOOD)) for n, fates in self.fates.items()}

    async def transaction(self, batch: Sequence[One]) -> None:
        raised = []
        for received in batch:
            number = received.stream_sequence
            self.tries[number] = self.tries.get(number, 0) + 1
            self.deliveries.setdefault(number, []).append(received.deliveries)
            raised.append(raised_by(next(self._next[number])))
        for error in filter(None, raised):
            raise error
        self.committed += [received.stream_sequence for received in batch]

    def handler(self, kind: str, clock: FakeClock | None = None) -> BatchHandler[NodeLivenessChanged]:
        async def one(received: One) -> None:
            await self.transaction([received])

        if kind == "each":
            return each(one)
        whole = all_or_split(self.transaction)
        return whole if kind == "all_or_split" else Holding(whole, clock or FakeClock())


def settled(service: Service, kind: str) -> tuple[dict[int, list[object]], Letters]:
    letters, told = Letters(), [message(number) for number in service.fates]
    settler = Settler(NodeLivenessChanged, "c", SPEC, service.handler(kind), letters, Counters())
    asyncio.run(settler.settle(told))
    return {each_.stream_sequence: each_.words for each_ in told}, letters


lasting = st.lists(st.sampled_from([GOOD, DEFECT, REFUSED]), min_size=1, max_size=12)
"""What the message itself does, every time."""


@given(lasting, st.sampled_from(KINDS))
def test_a_message_that_always_fails_is_buried_after_two_tries_and_its_neighbours_are_done(
    fates: list[str], kind: str
) -> None:
    service = Service({number: [fate] * 9 for number, fate in enumerate(fates)})
    words, letters = settled(service, kind)
    assert sorted(service.committed) == [number for number, fate in enumerate(fates) if fate == GOOD]
    assert words == {number: ["ack" if fate == GOOD else "term"] for number, fate in enumerate(fates)}
    assert [letter.reason for letter in letters] == [
        {DEFECT: "handler_failed", REFUSED: "refused"}[fate] for fate in fates if fate != GOOD
    ]
    assert max(service.tries.values()) <= 2


@given(st.lists(st.sampled_from(FATES), min_size=1, max_size=12), st.sampled_from(KINDS[:2]))
def test_every_message_is_settled_once_and_none_is_buried_for_a_fault_of_the_machine(
    fates: list[str], kind: str
) -> None:
    service = Service({number: [fate] * 9 for number, fate in enumerate(fates)})
    words, letters = settled(service, kind)
    assert all(len(told) == 1 for told in words.values())
    assert {letter.stream_sequence for letter in letters} <= {
        number for number, fate in enumerate(fates) if fate in (DEFECT, REFUSED)
    }
    acknowledged = [number for number, told in words.items() if told == ["ack"]]
    assert acknowledged == sorted(service.committed)  # what is acknowledged is committed once; what is not comes again
    assert max(service.tries.values()) <= 2


@given(st.lists(st.sampled_from([GOOD, DEFECT, MACHINE]), min_size=2, max_size=8), st.sampled_from(KINDS))
def test_what_fails_once_is_done_in_the_same_settlement(fates: list[str], kind: str) -> None:
    service = Service({number: [fate] for number, fate in enumerate(fates)})
    words, letters = settled(service, kind)
    assert sorted(service.committed) == list(range(len(fates)))
    assert set(map(str, words.values())) == {"['ack']"}
    assert letters == []


@pytest.mark.parametrize(("fate", "second"), [(DEFECT, [1, 2]), (REFUSED, [1, 1])])
def test_the_second_try_counts_as_a_delivery_where_the_first_may_have_been_committed(
    fate: str, second: list[int]
) -> None:
    service = Service({1: [fate] * 9, 2: [GOOD]})
    settled(service, "all_or_split")
    assert service.deliveries[2] == second


@pytest.mark.parametrize(
    ("fate", "kind", "word"),
    [
        (CONFLICT, "each", ("nak", CONFLICT_SECONDS)),
        (CONFLICT, "all_or_split", ("nak", 1)),
        (AWAY, "each", ("nak", 1)),
        (AWAY, "all_or_split", ("nak", 1)),
    ],
)
def test_a_conflict_of_one_event_comes_again_soon_and_an_outage_after_a_pause(
    fate: str, kind: str, word: object
) -> None:
    words, letters = settled(Service({1: [fate] * 9, 2: [fate] * 9}), kind)
    assert words == {1: [word], 2: [word]}
    assert letters == []


@given(st.lists(st.sampled_from([GOOD, DEFECT, REFUSED, AWAY, MACHINE]), min_size=1, max_size=10), st.booleans())
def test_a_replay_handles_in_order_and_ends_whatever_happens(fates: list[str], one_by_one: bool) -> None:
    """Outages end after three tries; of the machine's faults no replay waits for ever."""
    lasting = {number: [fate] * (3 if fate == AWAY else 99) for number, fate in enumerate(fates, 1)}
    service, letters = Service(lasting), Letters()
    handler = service.handler("each" if one_by_one else "all_or_split")
    replayer = Replayer(NodeLivenessChanged, "r", handler, letters, Counters())

    async def replay() -> None:
        position, rounds = 0, 0
        while position < len(fates):
            rounds += 1
            assert rounds < 10 * (MOST_TRIES + 3) * len(fates)
            again = await replayer.handle([message(number) for number in range(position + 1, len(fates) + 1)])
            position = len(fates) if again is None else again

    asyncio.run(replay())
    good = [number for number, fate in enumerate(fates, 1) if fate in (GOOD, AWAY)]
    assert service.committed == good  # each once, in order, and what is given up holds back nothing
    assert [letter.stream_sequence for letter in letters] == [
        number for number, fate in enumerate(fates, 1) if fate in (DEFECT, REFUSED, MACHINE)
    ]


def holding(error: Exception) -> tuple[Holding[NodeLivenessChanged], FakeClock, list[Sequence[int]]]:
    clock, calls = FakeClock(), list[Sequence[int]]()

    async def handle(batch: Sequence[One]) -> Sequence[Settlement]:
        calls.append([received.deliveries for received in batch])
        if len(calls) < 4:
            raise error
        return [Done()] * len(batch)

    return Holding(handle, clock), clock, calls


def received() -> list[One]:
    made = []

    async def note(batch: Sequence[One]) -> None:
        made.extend(batch)

    settler = Settler(NodeLivenessChanged, "c", SPEC, all_or_split(note), Letters(), Counters())
    asyncio.run(settler.settle([message(1), message(2)]))
    return made


BATCH = received()


async def until_done(task: asyncio.Task[Sequence[Settlement]], clock: FakeClock) -> Sequence[Settlement]:
    for _ in range(20):
        await clock.advance(1)
    assert task.done()
    return task.result()


@pytest.mark.parametrize("error", [Unavailable("no database"), Conflict("lost a race")])
async def test_a_held_batch_waits_for_the_store_and_each_try_counts(error: Exception) -> None:
    handler, clock, calls = holding(error)
    task = asyncio.create_task(_run(handler))
    assert await until_done(task, clock) == [Done(), Done()]
    assert calls == [[1, 1], [2, 2], [3, 3], [4, 4]]


async def test_a_held_batch_goes_back_at_once_when_the_service_stops_or_another_replica_owns_it() -> None:
    for error, leaves in ((Unavailable("no database"), True), (Fenced("not ours"), False)):
        handler, _, calls = holding(error)
        if leaves:
            handler.leave()
        verdicts = await handler(BATCH)
        assert [(verdict.delay_seconds, verdict.away) for verdict in verdicts] == [(0.0, True)] * 2  # type: ignore[union-attr]
        assert len(calls) == 1


async def _run(handler: Callable[[Sequence[One]], Awaitable[Sequence[Settlement]]]) -> Sequence[Settlement]:
    return await handler(BATCH)
