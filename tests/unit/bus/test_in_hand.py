"""What is in hand of a partition: a hand-over waits for it, and never for what is no longer there."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
from nats.protocol.command import pub_cmd

from slackwater.bus.connect.nats_client import SteadyClient
from slackwater.bus.consume.deliveries import NatsDelivery
from slackwater.bus.consume.partition_ownership import IN_A_GO, Unsettled
from slackwater.bus.consume.settlement import Delivery
from slackwater.events.envelope import partition_in
from slackwater.events.waterline_crossed import WaterlineCrossed

SUBJECT = f"sw.v1.{WaterlineCrossed.TYPE}.0.n"


@dataclass
class Message:
    """Of JetStream; `answers` are the words it was settled with."""

    subject: str = SUBJECT
    data: bytes = b"{}"
    headers: dict[str, str] = field(default_factory=dict)
    reply: str = "$JS.ACK.USAGE.c.1.7.7.1700000000000000000.0"
    answers: list[bytes] = field(default_factory=list)

    @property
    def _client(self) -> Message:
        return self

    async def publish(self, _reply: str, word: bytes) -> None:
        self.answers.append(word)


def deliveries(*messages: Message) -> list[Delivery]:
    return [NatsDelivery(message) for message in messages]  # type: ignore[arg-type]  # as much of a message as is used


async def test_what_is_another_s_goes_back_and_is_not_in_hand() -> None:
    settled: list[int] = []

    async def settle(ours: Sequence[Delivery]) -> None:
        settled.append(len(ours))

    message = Message()
    await Unsettled(settle, lambda partition: False).settle(deliveries(message))
    assert (settled, message.answers) == ([], [b"-NAK"])


async def test_a_hand_over_waits_until_what_is_in_hand_is_settled() -> None:
    free = asyncio.Event()

    async def settle(_: Sequence[Delivery]) -> None:
        await free.wait()

    hand = Unsettled(settle, lambda _: True)
    batch = deliveries(*(Message() for _ in range(2 * IN_A_GO)))
    work = asyncio.create_task(hand.settle(batch))
    await asyncio.sleep(0)  # it is sorting: their partitions are not known yet
    over = asyncio.create_task(hand.without({partition_in(SUBJECT)}))
    other = asyncio.create_task(hand.without({partition_in(SUBJECT) + 1}))
    for _ in range(10):
        await asyncio.sleep(0)
    assert (over.done(), other.done()) == (False, True)
    free.set()
    await asyncio.gather(work, over)


async def test_what_is_handed_over_is_no_longer_kept_in_hand() -> None:
    seen: list[list[bool]] = []
    asked, free = asyncio.Event(), asyncio.Event()

    async def settle(ours: Sequence[Delivery]) -> None:
        seen.append([one.is_current for one in ours])
        asked.set()
        await free.wait()
        seen.append([one.is_current for one in ours])

    hand = Unsettled(settle, lambda _: True)
    work = asyncio.create_task(hand.settle(deliveries(Message())))
    await asked.wait()
    over = asyncio.create_task(hand.without({partition_in(SUBJECT)}))
    await asyncio.sleep(0)
    free.set()
    await asyncio.gather(work, over)
    await hand.settle(deliveries(Message()))
    assert seen == [[True], [False], [True], [True]]


async def test_what_was_cancelled_while_it_was_sorted_is_not_waited_for() -> None:
    async def settle(_: Sequence[Delivery]) -> None:
        raise AssertionError("cancelled before")

    hand = Unsettled(settle, lambda _: True)
    batch = deliveries(*(Message() for _ in range(IN_A_GO)))
    work = asyncio.create_task(hand.settle(batch))
    await asyncio.sleep(0)
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    async with asyncio.timeout(60):
        await hand.without({partition_in(SUBJECT)})


async def test_a_settled_message_lets_go_of_its_body_and_one_that_is_worked_on_does_not() -> None:
    message = Message()
    delivery = NatsDelivery(message)  # type: ignore[arg-type]  # as above
    await delivery.in_progress()
    assert delivery.body == b"{}"
    await delivery.ack()
    assert (delivery.body, message.answers) == (b"", [b"+WPI", b"+ACK"])


def test_answers_that_were_not_sent_before_the_connection_ended_are_dropped_and_what_is_published_stays() -> None:
    client = SteadyClient()
    answer, event = pub_cmd("$JS.ACK.USAGE.c.1.7.7.1.0", "", b"+ACK"), pub_cmd("sw.v1.x", "_INBOX.1", b"PUB $JS.ACK.")
    client._pending, client._pending_data_size = [answer, event, answer], len(answer + event + answer)
    client.drop_answers()
    assert (client._pending, client.pending_data_size) == ([event], len(event))
