"""Runs a service with a planted defect, to verify that the scenarios detect it.

`python -m tests.faults.sabotage KIND run SERVICE …`: like `slackwater run SERVICE …`, with the defect.
"""

from __future__ import annotations

import asyncio
import itertools
import sys
import uuid
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from slackwater.bus.consume.settlement import Settler
from slackwater.cli.main import main
from slackwater.events.serialized import Written
from slackwater.model.errors import Unavailable
from slackwater.store.outbox import OutboxRelay


def relay_forgets() -> None:
    """Every seventh event of the outbox is counted as published but not published."""
    whole, numbers = OutboxRelay.__init__, itertools.count(1)

    def spoilt(self: OutboxRelay, dsn: str, service: str, publish: Any, *rest: Any, **named: Any) -> None:
        async def forget(event: Written) -> None:
            if next(numbers) % 7:
                await publish(event)

        whole(self, dsn, service, forget, *rest, **named)

    OutboxRelay.__init__ = spoilt  # type: ignore[method-assign] # the point


def relay_doubles() -> None:
    """Every event of the outbox is published twice, the second time with another message id."""
    whole = OutboxRelay.__init__

    def spoilt(self: OutboxRelay, dsn: str, service: str, publish: Any, *rest: Any, **named: Any) -> None:
        async def twice(event: Written) -> None:
            await publish(event)
            if event.type == "decision.recorded.v1":
                await publish(replace(event, id=str(uuid.uuid4())))

        whole(self, dsn, service, twice, *rest, **named)

    OutboxRelay.__init__ = spoilt  # type: ignore[method-assign] # the point


def acks_early() -> None:
    """Messages are acknowledged first and handled a little later."""
    whole = Settler._handle

    async def spoilt(self: Settler[Any], pairs: Sequence[Any]) -> None:
        for delivery, _ in pairs:
            await delivery.ack()
        await asyncio.sleep(0.3)
        try:
            await whole(self, pairs)
        except Unavailable:
            return

    Settler._handle = spoilt  # type: ignore[method-assign] # the point


def move_halts() -> None:
    """No defect: the crash points of a move (tests.faults.move_halts)."""
    from tests.faults.move_halts import install  # imports two services

    install()


KINDS: dict[str, Callable[[], None]] = {
    "move-halts": move_halts,
    "relay-forgets": relay_forgets,
    "relay-doubles": relay_doubles,
    "acks-early": acks_early,
}

if __name__ == "__main__":
    KINDS[sys.argv.pop(1)]()
    main()
