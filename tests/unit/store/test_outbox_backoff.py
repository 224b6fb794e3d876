"""The backoff of a subject whose row the broker did not take: it holds the subject back, and then asks for nothing."""

from __future__ import annotations

from typing import Any

from slackwater.model.errors import Unavailable
from slackwater.store.outbox_sender import OutboxSender
from slackwater.testing.clock import FakeClock

POLL = 5.0
ROW = {"subject": "sw.v1.peak.predicted.3.n", "position": 1}


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
