"""The backoff of a subject whose row the broker did not take, and of a full stream: each holds back what it must, and
then asks for nothing.
"""

from __future__ import annotations

import asyncio
from typing import Any

from tests.support.clock import FakeClock

from slackwater.model.errors import StreamFull, Unavailable
from slackwater.store.outbox_sender import OutboxSender

POLL = 5.0
ROW = {"subject": "sw.v1.peak.predicted.3.n", "type": "peak.predicted.v1", "position": 1}


async def refuse(_: Any) -> None:
    raise Unavailable("the bus is away")


async def test_a_backoff_that_is_over_does_not_make_the_relay_poll_without_a_pause() -> None:
    """Seed 1015 of the simulated world: another replica had sent the row, and the relay went on asking PostgreSQL."""
    clock = FakeClock()
    sender = OutboxSender(refuse, lambda _: True, clock, lambda: None)
    sender.begin([ROW])
    await clock.advance(0)
    _, ended = sender.collect_outcome()
    assert sender.busy(but=ended) == [ROW["subject"]]
    sender.discard(ended)
    rest = sender.rest_seconds(POLL)
    assert 0 < rest < POLL
    await clock.advance(rest)
    assert sender.busy() == []
    assert sender.rest_seconds(POLL) == POLL


def decision(number: int) -> dict[str, Any]:
    return {"subject": f"sw.v1.decision.recorded.3.d{number}", "type": "decision.recorded.v1", "position": number}


class Broker:
    """Takes everything but what a full stream refuses."""

    def __init__(self) -> None:
        self.is_full = True
        self.tried: list[int] = []
        self.stored: list[int] = []

    async def publish(self, row: Any) -> None:
        self.tried.append(row["position"])
        if self.is_full and row["type"] == "decision.recorded.v1":
            raise StreamFull("DECISIONS is full")
        self.stored.append(row["position"])


async def test_a_full_stream_is_tried_with_one_row_at_a_time_and_is_no_outage() -> None:
    clock, broker = FakeClock(), Broker()
    sender = OutboxSender(broker.publish, lambda _: True, clock, lambda: None)

    async def send(*rows: Any) -> int:
        """Returns how many subjects failed, as in an outage of the bus."""
        sender.begin(rows)
        await clock.advance(0)
        outcome, ended = sender.collect_outcome()
        sender.discard(ended)
        return outcome.failed

    assert sender.held_types() == []
    assert await send(*map(decision, range(10)), {**ROW, "position": 10}) == 0
    assert broker.stored == [10]
    held = sender.held_types()
    assert "decision.recorded.v1" in held
    assert "intent.declared.v1" not in held
    assert sender.busy() == [], "its subjects need no backoff of their own"
    for _ in range(5):
        await clock.advance(sender.rest_seconds(POLL))
        assert sender.held_types() == []
        broker.tried.clear()
        assert await send(*map(decision, range(10))) == 0
        assert broker.tried == [0]
        assert "decision.recorded.v1" in sender.held_types()
    broker.is_full = False
    await clock.advance(sender.rest_seconds(POLL))
    assert sender.held_types() == []
    await send(*map(decision, range(10)))
    await send(*map(decision, range(1, 10)))
    assert sorted(broker.stored) == list(range(11))


async def test_while_a_full_stream_is_tried_nothing_more_of_it_starts() -> None:
    clock, answer = FakeClock(), asyncio.Event()

    async def publish(_: Any) -> None:
        await answer.wait()
        raise StreamFull("DECISIONS is full")

    sender = OutboxSender(publish, lambda _: True, clock, lambda: None)
    sender.begin([decision(1)])
    answer.set()
    await clock.advance(0)
    await clock.advance(sender.rest_seconds(POLL))
    answer.clear()
    sender.collect_outcome()
    sender.discard([decision(1)["subject"]])
    assert sender.held_types() == []
    sender.begin([decision(1), decision(2)])
    await clock.advance(0)
    assert sender.flying() == 1
    assert "decision.recorded.v1" in sender.held_types()
    await sender.close()
