"""A relay that is stopped while the database is away."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest
from tests.support.clock import FakeClock

from slackwater.store.commit_notifier import CommitNotifier
from slackwater.store.outbox import OutboxRelay
from slackwater.store.outbox_sender import OutboxSender


class GoneConnection:
    """Of a server that went away after the row was published."""

    is_terminated = False

    async def execute(self, *_: Any) -> None:
        raise ConnectionResetError("the server has gone away")

    def terminate(self) -> None:
        self.is_terminated = True


async def test_an_error_of_the_last_deletion_does_not_take_the_place_of_a_cancellation() -> None:
    """Seed 790 of the world of quotas: the service was told to stop, and its relay began another session."""

    async def backlog() -> None:
        return None

    async def publish(_: Any) -> None:
        return None

    clock, connection = FakeClock(), GoneConnection()
    relay = OutboxRelay("", "quota", publish, clock, None, backlog, CommitNotifier())
    sender = OutboxSender(publish, lambda _: True, clock, lambda: None)
    sender.begin([{"subject": "sw.v1.claim.changed.1.c", "type": "claim.changed.v1", "position": 1}])
    await clock.advance(0)

    async def session() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await relay._end(cast(Any, connection), sender)

    task = asyncio.create_task(session())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert connection.is_terminated
