"""What a decoder or a handler raises costs the message at fault and no other, in consumers and in replays."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_settlement import NOW, SPEC, FakeDelivery, Letters

from slackwater.bus.codec.cloudevents import encode
from slackwater.bus.codec.failures import detail_of, is_of_machine
from slackwater.bus.consume.dead_letters import DeadLetter
from slackwater.bus.consume.handlers import each
from slackwater.bus.consume.settlement import Settler
from slackwater.bus.consume.stats import Counters
from slackwater.bus.port import Done, Received, Reject, Retry, Settlement
from slackwater.bus.read.replay import MOST_TRIES, Replayer
from slackwater.events.codec import fast_decode
from slackwater.events.envelope import event_of
from slackwater.events.node_liveness_changed import NodeLivenessChanged
from slackwater.model.errors import Conflict, Fenced, InvalidInput, Unavailable
from slackwater.model.nodes import Liveness

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"
Batch = Sequence[Received[NodeLivenessChanged]]


def message(number: int) -> FakeDelivery:
    change = NodeLivenessChanged(
        node=f"n{number}", liveness=Liveness.LOST, previous=None, last_report_at=NOW, changed_at=NOW
    )
    made = encode(event_of(change, source="test", time=NOW, traceparent=TRACE))
    return FakeDelivery(number, body=made.body, subject=made.subject, headers=made.headers)


class Handler:
    """Fails at batches that contain one of `poison`, after it has noted what it did before that one."""

    def __init__(self, *poison: int, error: type[Exception] = OverflowError) -> None:
        self.poison = set(poison)
        self.error = error
        self.batches: list[list[int]] = []
        self.done: list[int] = []
        self.deliveries: dict[int, list[int]] = {}

    async def __call__(self, batch: Batch) -> Sequence[Settlement]:
        self.batches.append([received.stream_sequence for received in batch])
        for received in batch:
            self.deliveries.setdefault(received.stream_sequence, []).append(received.deliveries)
        for number in self.batches[-1]:
            if number in self.poison:
                raise self.error("Python int too large to convert to C long")
        self.done += self.batches[-1]
        return [Done()] * len(batch)

    def tries(self, number: int) -> int:
        return sum(number in batch for batch in self.batches)


def settler_of(handler: Handler, letters: Letters) -> Settler[NodeLivenessChanged]:
    return Settler(NodeLivenessChanged, "c", SPEC, handler, letters, Counters())


async def test_a_batch_that_fails_is_handled_message_by_message_in_the_same_settlement() -> None:
    handler, letters, told = Handler(2), Letters(), [message(number) for number in (1, 2, 3)]
    await settler_of(handler, letters).settle(told)
    assert handler.batches == [[1, 2, 3], [1], [2], [3]]
    assert [each_.words for each_ in told] == [["ack"], ["term"], ["ack"]]
    assert [(letter.stream_sequence, letter.reason) for letter in letters] == [(2, "handler_failed")]
    assert handler.deliveries[1] == [1, 2]


async def test_the_letter_says_what_was_raised_where_and_in_which_trace() -> None:
    letters = Letters()
    await settler_of(Handler(1), letters).settle([message(1)])
    sent = letters[0].message().headers
    assert sent["sw-detail"].startswith("OverflowError at slackwater/bus/")
    assert sent["sw-detail"].endswith("Python int too large to convert to C long")
    assert sent["traceparent"] == TRACE
    assert sent["sw-node"] == "n1"


@given(st.sets(st.integers(0, 11)), st.integers(1, 12), st.booleans())
def test_good_messages_are_done_once_and_bad_ones_tried_at_most_twice(poison: set[int], size: int, one: bool) -> None:
    handler, letters, told = Handler(*poison), Letters(), [message(number) for number in range(size)]

    async def alone(received: Received[NodeLivenessChanged]) -> None:
        await handler([received])

    settler = Settler(NodeLivenessChanged, "c", SPEC, each(alone) if one else handler, letters, Counters())
    asyncio.run(settler.settle(told))
    bad = poison & set(range(size))
    assert sorted(handler.done) == sorted(set(range(size)) - bad)
    assert [letter.stream_sequence for letter in letters] == sorted(bad)
    assert all(handler.tries(number) == 2 for number in bad)
    assert all(each_.words == (["term"] if each_.stream_sequence in bad else ["ack"]) for each_ in told)


RAISED = [
    UnicodeDecodeError("utf-8", b"\xed\xa0\x80", 0, 1, "invalid continuation byte"),
    OverflowError("int too large"),
    RecursionError("maximum recursion depth exceeded"),
    KeyError("x"),
    AssertionError(),
]


@pytest.mark.parametrize("error", RAISED, ids=lambda error: type(error).__name__)
async def test_whatever_a_decoder_raises_costs_that_message_only(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = fast_decode.read

    def reading(payload: type[fast_decode.P], body: bytes) -> fast_decode.P | None:
        if b'"n2"' in body:
            raise error
        return read(payload, body)

    monkeypatch.setattr(fast_decode, "read", reading)
    handler, letters, told = Handler(), Letters(), [message(number) for number in (1, 2, 3)]
    await settler_of(handler, letters).settle(told)
    assert handler.batches == [[1, 3]]
    assert [each_.words for each_ in told] == [["ack"], ["term"], ["ack"]]
    assert letters[0].reason == "decoder_failed"
    assert letters[0].detail.startswith(f"{type(error).__name__} at ")


@pytest.mark.parametrize("error", [Unavailable("no database"), Conflict("changed"), Fenced("not ours")])
async def test_an_outage_that_a_batch_handler_raises_is_no_failure(error: Exception) -> None:
    async def handler(batch: Batch) -> Sequence[Settlement]:
        raise error

    letters, told, counters = Letters(), [message(1), message(2)], Counters()
    await Settler(NodeLivenessChanged, "c", SPEC, handler, letters, counters).settle(told)
    assert [each_.words for each_ in told] == [[("nak", 1)]] * 2
    assert (letters, counters.handler_failures) == ([], 0)


async def test_invalid_input_of_one_message_rejects_that_one() -> None:
    async def handler(batch: Batch) -> Sequence[Settlement]:
        if any(received.stream_sequence == 2 for received in batch):
            raise InvalidInput("negative", code="negative")
        return [Done()] * len(batch)

    letters, told = Letters(), [message(1), message(2)]
    await Settler(NodeLivenessChanged, "c", SPEC, handler, letters, Counters()).settle(told)
    assert [each_.words for each_ in told] == [["ack"], ["term"]]
    assert [letter.reason for letter in letters] == ["negative"]


async def test_a_machine_without_memory_speaks_against_no_message_until_it_was_tried_often() -> None:
    handler, letters = Handler(2, error=MemoryError), Letters()
    settler, told = settler_of(handler, letters), [message(1), message(2), message(3)]
    await settler.settle(told)
    assert [each_.words for each_ in told] == [["ack"], [("nak", 1)], ["ack"]]
    last = replace(message(2), deliveries=SPEC.max_deliver)
    await settler.settle([last])
    assert last.words == ["term"]
    assert [letter.reason for letter in letters] == ["max_deliver"]


@pytest.mark.parametrize("answer", [[Done()], [Done(), None], None])
async def test_wrong_verdicts_are_a_failure_of_the_batch_and_then_of_the_message(answer: object) -> None:
    async def handler(batch: Batch) -> Sequence[Settlement]:
        if len(batch) == 2 or batch[0].stream_sequence == 2:
            return answer if len(batch) == 2 else []  # type: ignore[return-value]  # the point
        return [Done()]

    letters, told, counters = Letters(), [message(1), message(2)], Counters()
    await Settler(NodeLivenessChanged, "c", SPEC, handler, letters, counters).settle(told)
    assert [each_.words for each_ in told] == [["ack"], ["term"]]
    assert letters[0].reason == "handler_failed"
    assert "InvalidVerdicts" in letters[0].detail
    assert counters.handler_failures == 2


async def test_a_task_that_was_cancelled_inside_a_handler_does_not_end_the_reader() -> None:
    async def handler(batch: Batch) -> Sequence[Settlement]:
        inner = asyncio.ensure_future(asyncio.sleep(60))
        inner.cancel()
        await inner
        return [Done()] * len(batch)

    letters, told = Letters(), [message(1)]
    await Settler(NodeLivenessChanged, "c", SPEC, handler, letters, Counters()).settle(told)
    assert letters[0].detail.startswith("CancelledError at ")


async def test_cancelling_the_reader_ends_it() -> None:
    begun = asyncio.Event()

    async def handler(batch: Batch) -> Sequence[Settlement]:
        begun.set()
        await asyncio.sleep(60)
        return [Done()] * len(batch)

    told, letters = [message(1)], Letters()
    task = asyncio.create_task(Settler(NodeLivenessChanged, "c", SPEC, handler, letters, Counters()).settle(told))
    await begun.wait()
    task.cancel()
    await asyncio.wait({task})
    assert task.cancelled()
    assert told[0].words == []


async def test_an_exception_without_a_text_and_one_whose_text_fails_have_a_detail() -> None:
    class Sullen(Exception):
        def __str__(self) -> str:
            raise ValueError("Exceeds the limit (4300 digits) for integer string conversion")

    assert detail_of(KeyError()) == "KeyError at ?: "
    assert detail_of(Sullen()) == "Sullen at ?: (its text cannot be written)"
    assert len(detail_of(ValueError("x" * 100_000))) < 400


async def test_a_group_of_outages_is_one_and_a_mixed_group_is_none() -> None:
    assert is_of_machine(ExceptionGroup("g", [MemoryError(), TimeoutError()]))
    assert not is_of_machine(ExceptionGroup("g", [MemoryError(), ValueError()]))
    assert not is_of_machine(OSError(75, "Value too large for defined data type"))


def replayer_of(handler: Handler, letters: Letters) -> Replayer[NodeLivenessChanged]:
    return Replayer(NodeLivenessChanged, "r", handler, letters, Counters())


async def test_a_replay_goes_on_behind_a_message_that_fails_alone() -> None:
    handler, letters = Handler(2, 5), Letters()
    assert await replayer_of(handler, letters).handle([message(number) for number in range(1, 6)]) is None
    assert handler.batches == [[1, 2, 3, 4, 5], [1], [2], [3], [4], [5]]
    assert handler.done == [1, 3, 4]
    assert [(letter.stream_sequence, letter.reason) for letter in letters] == [
        (2, "handler_failed"),
        (5, "handler_failed"),
    ]


async def test_behind_an_outage_nothing_of_a_replay_is_tried() -> None:
    done: list[int] = []
    away = [True]

    async def handler(batch: Batch) -> Sequence[Settlement]:
        if len(batch) > 1:
            raise ValueError("one of them")
        if batch[0].stream_sequence == 2 and away:
            away.clear()
            raise Unavailable("no database")
        done.append(batch[0].stream_sequence)
        return [Done()]

    replayer = Replayer(NodeLivenessChanged, "r", handler, Letters(), Counters())
    assert await replayer.handle([message(1), message(2), message(3)]) == 1
    assert done == [1]
    assert await replayer.handle([message(2), message(3)]) is None
    assert done == [1, 2, 3]


async def test_a_replay_does_not_wait_for_ever_for_what_no_memory_is_enough_for() -> None:
    handler, letters = Handler(1, error=MemoryError), Letters()
    replayer = replayer_of(handler, letters)
    for _ in range(MOST_TRIES - 1):
        assert await replayer.handle([message(1), message(2)]) == 0
    assert await replayer.handle([message(1), message(2)]) == 1
    assert await replayer.handle([message(2)]) is None
    assert handler.done == [2]
    assert [(letter.stream_sequence, letter.reason) for letter in letters] == [(1, "max_deliver")]


class Closed(Letters):
    """Dead letters that cannot be stored for a while."""

    away = True

    async def __call__(self, letter: DeadLetter) -> bool:
        if self.away:
            raise Unavailable("DLQ is away")
        return await super().__call__(letter)


async def test_letters_of_a_replay_that_wait_hold_back_the_next_batch_and_nothing_is_handled_twice() -> None:
    handler, letters = Handler(2), Closed()
    replayer = replayer_of(handler, letters)
    assert await replayer.handle([message(1), message(2), message(3)]) is None
    assert await replayer.handle([message(4)]) == 3
    letters.away = False
    assert await replayer.handle([message(4)]) is None
    assert handler.done == [1, 3, 4]
    assert [letter.stream_sequence for letter in letters] == [2]


async def test_a_verdict_to_reject_or_retry_of_one_handler_is_kept_beside_a_failure() -> None:
    verdicts: dict[int, Settlement] = {1: Reject("bad"), 3: Retry("later")}

    async def handle(received: Received[NodeLivenessChanged]) -> Settlement | None:
        if received.stream_sequence == 2:
            raise ValueError("defect")
        return verdicts.get(received.stream_sequence)

    letters, told = Letters(), [message(number) for number in range(1, 5)]
    await Settler(NodeLivenessChanged, "c", SPEC, each(handle), letters, Counters()).settle(told)
    assert [each_.words for each_ in told] == [["term"], ["term"], [("nak", 1)], ["ack"]]
    assert [letter.reason for letter in letters] == ["bad", "handler_failed"]
