"""Which event leads to which use case."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from slackwater.bus.consume.handlers import Consumer, each
from slackwater.bus.port import Received
from slackwater.descheduler.usecases.evicted_moves import RecordEvictedMove
from slackwater.events.eviction_completed import EvictionCompleted

EVICTIONS: Final = "descheduler-eviction-completed"


def consumers(evicted: RecordEvictedMove) -> Sequence[Consumer[Any]]:
    """The ends of evictions. All else that is read is level-triggered and watched."""

    async def on_evicted(received: Received[EvictionCompleted]) -> None:
        await evicted(received.event.data)

    return (Consumer(EvictionCompleted, EVICTIONS, each(on_evicted)),)
