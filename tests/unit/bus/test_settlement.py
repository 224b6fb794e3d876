"""Settlement message by message, with deliveries that record their acknowledgements."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.bus.admin.streams import ConsumerSpec
from slackwater.bus.codec.cloudevents import encode
from slackwater.bus.consume.cooperative import AT_A_STRETCH, AT_ONCE
from slackwater.bus.consume.dead_letters import DeadLetter
from slackwater.bus.consume.handlers import each
from slackwater.bus.consume.settlement import AWAY_SECONDS, KEEP_FACTOR, KEEP_SECONDS, UNSEEN_FACTOR, Settler
from slackwater.bus.consume.stats import Counters
from slackwater.bus.port import BatchHandler, Done, Received, Reject, Retry, Settlement
from slackwater.events.codec import fast_decode
from slackwater.events.envelope import event_of
from slackwater.events.node_liveness_changed import NodeLivenessChanged
from slackwater.model.errors import Unavailable
from slackwater.model.nodes import Liveness

NOW = datetime(2026, 1, 5, tzinfo=UTC)
GOOD = encode(
    event_of(
        NodeLivenessChanged(node="n", liveness=Liveness.LOST, previous=None, last_report_at=NOW, changed_at=NOW),
        source="test",
        time=NOW,
        id="e1",
    )
)
SPEC = ConsumerSpec(event="node.liveness_changed", max_deliver=3, backoff_seconds=(1, 5), ack_wait_seconds=0.02)


@dataclass
class FakeDelivery:
    stream_sequence: int = 1
    deliveries: int = 1
    body: bytes = GOOD.body
    subject: str = GOOD.subject
    headers: Mapping[str, str] = field(default_factory=lambda: GOOD.headers)
    pending: int = 0
    stored_at_seconds: float = 0.0
    is_current: bool = True
    words: list[object] = field(default_factory=list)
    beats: int = 0

    async def ack(self) -> None:
        self.words.append("ack")

    async def nak(self, delay_seconds: float) -> None:
        self.words.append(("nak", delay_seconds))

    async def term(self) -> None:
        self.words.append("term")

    async def in_progress(self) -> None:
        self.beats += 1


class Letters(list[DeadLetter]):
    async def __call__(self, letter: DeadLetter) -> bool:
        self.append(letter)
        return True


def answering(*verdicts: Settlement) -> BatchHandler[NodeLivenessChanged]:
    async def handler(batch: Sequence[Received[NodeLivenessChanged]]) -> Sequence[Settlement]:
        return verdicts

    return handler


async def settle(
    handler: BatchHandler[NodeLivenessChanged], *deliveries: FakeDelivery, spec: ConsumerSpec = SPEC
) -> tuple[Letters, Counters]:
    letters, counters = Letters(), Counters()
    await Settler(NodeLivenessChanged, "c", spec, handler, letters, counters).settle(deliveries)
    return letters, counters.snapshot()


async def failing(batch: Sequence[Received[NodeLivenessChanged]]) -> Sequence[Settlement]:
    raise RuntimeError("defect")


async def test_pauses_grow_with_the_deliveries_and_stay_at_the_last() -> None:
    spec = SPEC.model_copy(update={"max_deliver": 9})
    told = [FakeDelivery(deliveries=n) for n in (1, 2, 3, 4)]
    await settle(answering(*[Retry("x")] * 4), *told, spec=spec)
    assert [t.words for t in told] == [[("nak", 1)], [("nak", 5)], [("nak", 5)], [("nak", 5)]]


async def test_a_message_that_killed_its_process_too_often_does_not_reach_the_handler() -> None:
    told = FakeDelivery(deliveries=UNSEEN_FACTOR * SPEC.max_deliver + 1)
    letters, stats = await settle(failing, told)
    assert told.words == ["term"]
    assert letters[0].reason == "max_deliver"
    assert (stats.exhausted, stats.handler_failures) == (1, 0)


async def test_while_a_dependency_is_away_no_delivery_counts() -> None:
    letters, counters = Letters(), Counters()
    settler = Settler(NodeLivenessChanged, "c", SPEC, answering(Retry("away", away=True)), letters, counters)
    for number in range(1, 30):
        told = FakeDelivery(deliveries=number)
        await settler.settle([told])
        assert told.words == [("nak", min(AWAY_SECONDS, (1, 5)[min(number, 2) - 1]))]
    settler = Settler(NodeLivenessChanged, "c", SPEC, answering(Done()), letters, counters)
    await settler.settle([told := FakeDelivery(deliveries=10)])  # another process, which did not see the outage
    assert (told.words, letters) == (["ack"], [])


async def test_failures_count_after_an_outage_as_before() -> None:
    letters, counters = Letters(), Counters()
    verdicts = [Retry("away", away=True)] * 5 + [Retry("conflict")] * 3

    async def handler(batch: Sequence[Received[NodeLivenessChanged]]) -> Sequence[Settlement]:
        return [verdicts.pop(0)]

    settler = Settler(NodeLivenessChanged, "c", SPEC, handler, letters, counters)
    told = [FakeDelivery(deliveries=number) for number in range(1, 9)]
    for one in told:
        await settler.settle([one])
    assert [one.words == ["term"] for one in told] == [False] * 7 + [True]
    assert [letter.reason for letter in letters] == ["max_deliver"]


async def test_a_process_that_takes_over_in_an_outage_excuses_what_came_before() -> None:
    letters, counters = Letters(), Counters()
    verdicts: list[Settlement] = [Retry("away", away=True), Done()]

    async def handler(batch: Sequence[Received[NodeLivenessChanged]]) -> Sequence[Settlement]:
        return [verdicts.pop(0)]

    settler = Settler(NodeLivenessChanged, "c", SPEC, handler, letters, counters)
    for number in (7, 8):
        await settler.settle([told := FakeDelivery(deliveries=number)])
    assert (told.words, letters) == (["ack"], [])


async def test_the_first_failure_after_an_outage_that_another_process_saw_is_not_the_last() -> None:
    letters, counters = Letters(), Counters()
    settler = Settler(NodeLivenessChanged, "c", SPEC, answering(Retry("conflict")), letters, counters)
    told = [FakeDelivery(deliveries=number) for number in (9, 10, 11)]
    for one in told:
        await settler.settle([one])
    assert [one.words == ["term"] for one in told] == [False, False, True]


@dataclass
class Outage:
    """A dependency that is away until `ends_at`, in virtual seconds, and one message of the broker's."""

    ends_at: float
    now: float = 0.0
    deliveries: int = 0
    handled: int = 0

    async def sleep(self, seconds: float) -> None:
        self.now += seconds

    async def handle(self, received: Received[NodeLivenessChanged]) -> None:
        if self.now < self.ends_at:
            raise Unavailable("PostgreSQL does not answer")
        self.handled += 1

    def process(self, spec: ConsumerSpec, letters: Letters) -> Settler[NodeLivenessChanged]:
        return Settler(NodeLivenessChanged, "c", spec, each(self.handle), letters, Counters(), sleep=self.sleep)


@given(st.integers(3, 5), st.floats(0, 1800), st.lists(st.booleans(), max_size=20))
def test_an_outage_makes_no_dead_letter_whichever_process_takes_over(
    max_deliver: int, seconds: float, takeovers: list[bool]
) -> None:
    """`takeovers`: before which deliveries another process, which has not seen the message, takes over."""
    spec = SPEC.model_copy(update={"max_deliver": max_deliver, "backoff_seconds": (0.5, 2, 10)})
    outage, letters = Outage(seconds), Letters()
    settler = outage.process(spec, letters)

    async def deliver() -> None:
        nonlocal settler
        while not outage.handled and not letters:
            outage.deliveries += 1
            if outage.deliveries <= len(takeovers) and takeovers[outage.deliveries - 1]:
                settler = outage.process(spec, letters)
            await settler.settle([told := FakeDelivery(deliveries=outage.deliveries)])
            for word in told.words:
                outage.now += word[1] if isinstance(word, tuple) else 0.0
        await outage.process(spec, letters).settle([FakeDelivery(deliveries=outage.deliveries + 1)])

    asyncio.run(deliver())
    assert (outage.handled, letters) == (2, [])


async def test_a_message_that_is_away_while_others_pass_keeps_them_waiting_only_once() -> None:
    outage, letters, others = Outage(float("inf")), Letters(), 0

    async def handle(received: Received[NodeLivenessChanged]) -> None:
        nonlocal others
        if received.stream_sequence == 1:
            await outage.handle(received)
        others += 1

    settler = Settler(NodeLivenessChanged, "c", SPEC, each(handle), letters, Counters(), sleep=outage.sleep)
    first = KEEP_FACTOR * SPEC.max_deliver
    waited = []
    for number in range(first, first + 3):
        before = outage.now
        await settler.settle([told := FakeDelivery(deliveries=number)])
        assert told.words == [("nak", AWAY_SECONDS)]
        waited.append(outage.now - before)
        await settler.settle([FakeDelivery(2 + number)])
    assert waited == [KEEP_SECONDS, 0.0, 0.0]
    assert (others, letters) == (3, [])


async def test_a_message_that_is_no_longer_in_hand_is_not_kept() -> None:
    outage = Outage(float("inf"))
    told = FakeDelivery(deliveries=KEEP_FACTOR * SPEC.max_deliver)

    async def sleep(seconds: float) -> None:
        told.is_current = False

    await Settler(NodeLivenessChanged, "c", SPEC, each(outage.handle), Letters(), Counters(), sleep=sleep).settle(
        [told]
    )
    assert told.words == [("nak", 0.0)]


async def test_where_only_the_latest_counts_older_ones_of_a_subject_are_done_unread() -> None:
    seen: list[int] = []

    async def handler(batch: Sequence[Received[NodeLivenessChanged]]) -> Sequence[Settlement]:
        seen.extend(received.stream_sequence for received in batch)
        return [Done()] * len(batch)

    told = [FakeDelivery(number) for number in range(1, 5)]
    letters, stats = await settle(handler, *told, spec=SPEC.model_copy(update={"latest_only": True}))
    assert seen == [4]
    assert [one.words for one in told] == [["ack"]] * 4
    assert (stats.done, letters) == (4, [])


async def test_what_cannot_be_buried_is_not_terminated() -> None:
    async def no_broker(letter: DeadLetter) -> bool:
        raise Unavailable("full")

    told = FakeDelivery(body=b"?")
    settler = Settler(NodeLivenessChanged, "c", SPEC, answering(), no_broker, Counters())
    await settler.settle([told])
    assert told.words == [("nak", 1)]


async def test_a_slow_handler_is_kept_in_progress() -> None:
    told = FakeDelivery()

    async def slow(batch: Sequence[Received[NodeLivenessChanged]]) -> Sequence[Settlement]:
        while told.beats < 3:
            await asyncio.sleep(0.001)
        return [Done()]

    await settle(slow, told)
    assert told.words == ["ack"]


verdicts = st.one_of(st.just(Done()), st.builds(Retry, st.just("r")), st.builds(Reject, st.just("bad")))


@given(st.lists(st.tuples(verdicts, st.integers(1, 5), st.booleans()), min_size=1, max_size=8), st.booleans())
def test_every_message_is_settled_exactly_once_and_none_is_lost(
    cases: list[tuple[Settlement, int, bool]], handler_fails: bool
) -> None:
    told = [FakeDelivery(i, n, GOOD.body if readable else b"?") for i, (_, n, readable) in enumerate(cases)]

    async def handler(batch: Sequence[Received[NodeLivenessChanged]]) -> Sequence[Settlement]:
        if handler_fails:
            raise RuntimeError("defect")
        return [cases[received.stream_sequence][0] for received in batch]

    letters, stats = asyncio.run(settle(handler, *told))
    assert all(len(t.words) == 1 for t in told)
    assert [t.stream_sequence for t in told if t.words == ["term"]] == [x.stream_sequence for x in sorted_by(letters)]
    assert stats.done + stats.retried + stats.rejected + stats.undecodable + stats.exhausted == len(told)


def sorted_by(letters: Letters) -> list[DeadLetter]:
    return sorted(letters, key=lambda letter: letter.stream_sequence)


async def test_two_consumers_that_bury_the_same_event_leave_two_letters() -> None:
    letters = [DeadLetter(c, "r", "d", "s", GOOD.headers, b"", 7).message() for c in ("a", "b", "a")]
    ids = [letter.headers["Nats-Msg-Id"] for letter in letters]
    assert ids[0] != ids[1]
    assert ids[0] == ids[2]


async def test_a_letter_is_never_too_large_for_the_broker() -> None:
    headers = {**GOOD.headers, "x-large": "y" * 500_000, **{f"h{n}": "z" * 1000 for n in range(400)}}
    letter = DeadLetter("c", "r", "d" * 900, "s", headers, b"b" * (2**20 - 10), 7).message()
    assert len(letter.body) + sum(len(k) + len(v) + 16 for k, v in letter.headers.items()) < 2**20
    assert letter.headers["sw-cut-from-bytes"] == str(2**20 - 10)
    assert letter.headers["sw-reason"] == "r"


async def test_a_detail_in_any_script_becomes_one_line_of_ascii() -> None:
    detail = DeadLetter("c", "r", "zwei\r\nZeilen ü " + "x" * 900, "s", {}, b"", 7).message().headers["sw-detail"]
    assert detail.startswith("zwei Zeilen \\xfc x")
    assert detail.isascii()


def told_of(number: int) -> FakeDelivery:
    """Of a node of its own."""
    change = NodeLivenessChanged(
        node=f"n{number}", liveness=Liveness.LOST, previous=None, last_report_at=NOW, changed_at=NOW
    )
    message = encode(event_of(change, source="test", time=NOW))
    return FakeDelivery(number, body=message.body, subject=message.subject, headers=message.headers)


@pytest.mark.parametrize("stretch", ["read", "handled"])
async def test_a_message_of_another_consumer_does_not_wait_for_a_whole_batch(
    stretch: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One message comes when the first of 1,000 is read (where only the newest of each node counts) or handled: it is
    settled long before the last of them."""
    began, handled_before = asyncio.Event(), []
    handled = read = 0
    decoder = fast_decode.read

    async def note(_: Received[NodeLivenessChanged]) -> None:
        nonlocal handled
        handled += 1
        if stretch == "handled":
            began.set()

    def reading(payload: type[fast_decode.P], body: bytes) -> fast_decode.P | None:
        nonlocal read
        read += 1
        if stretch == "read":
            began.set()
        return decoder(payload, body)

    async def urgent(_: Received[NodeLivenessChanged]) -> None:
        handled_before.append(read if stretch == "read" else handled)

    async def comes() -> None:
        await began.wait()
        await other.settle([FakeDelivery()])

    spec = SPEC.model_copy(update={"latest_only": stretch == "read"})
    monkeypatch.setattr(fast_decode, "read", reading)
    large = Settler(NodeLivenessChanged, "large", spec, each(note), Letters(), Counters())
    other = Settler(NodeLivenessChanged, "other", SPEC, each(urgent), Letters(), Counters())
    coming = asyncio.create_task(comes())
    await large.settle([told_of(number) for number in range(1, 1001)])
    await coming
    assert (handled, read) == (1000, 1001), "the urgent one is read, too"
    assert handled_before[0] <= 5 * AT_A_STRETCH


@dataclass
class Timed(FakeDelivery):
    """Notes before which turn of the event loop it was acknowledged."""

    turns: list[int] = field(default_factory=list)
    acknowledged: list[int] = field(default_factory=list)

    async def ack(self) -> None:
        self.acknowledged.append(len(self.turns))


async def test_what_is_handled_at_once_is_acknowledged_in_one_go() -> None:
    """An answer to the broker is a system call where it stands alone, and a part of one where others stand with it."""
    turns: list[int] = []
    acknowledged: list[int] = []

    async def ticking() -> None:
        while True:
            turns.append(0)
            await asyncio.sleep(0)

    many = [
        Timed(one.stream_sequence, 1, one.body, one.subject, one.headers, turns=turns, acknowledged=acknowledged)
        for one in map(told_of, range(1, 3 * AT_ONCE + 1))
    ]
    spec = SPEC.model_copy(update={"latest_only": True, "ack_wait_seconds": 60})
    settler = Settler(NodeLivenessChanged, "c", spec, answering(*[Done()] * AT_ONCE), Letters(), Counters())
    clock = asyncio.create_task(ticking())
    await settler.settle(many)
    clock.cancel()
    assert len(acknowledged) == len(many)
    assert len(set(acknowledged)) == 3
