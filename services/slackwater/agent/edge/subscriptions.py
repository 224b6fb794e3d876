"""What the agent reads of the bus: its node's documents, and the lease renewals of its partition."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from slackwater.agent.usecases.handle_intents import HandleIntents
from slackwater.bus.port import Bus
from slackwater.events.intent_declared import IntentDeclared
from slackwater.events.lease_renewed import LeaseRenewed
from slackwater.model.errors import Unavailable
from slackwater.model.identifiers import partition_of
from slackwater.model.time import Clock
from slackwater.telemetry.logs import get_logger

_log = get_logger(__name__)
_FIRST_PAUSE, _LONGEST_PAUSE = 0.2, 5.0


@dataclass(slots=True)
class Subscriptions:
    """Subscribes again, with growing pauses, while the bus is away."""

    bus: Bus
    clock: Clock
    intents: HandleIntents

    async def run(self) -> None:
        pause, node = _FIRST_PAUSE, self.intents.node
        while True:
            try:
                async with (
                    self.bus.watch(IntentDeclared, self.intents.receive, key=node),
                    self.bus.subscribe(LeaseRenewed, self.intents.renew, partition=partition_of(node)),
                ):
                    await asyncio.Event().wait()
            except Unavailable as error:
                _log.warning("intents not watched", error=error.message)
            await self.clock.sleep(pause)
            pause = min(_LONGEST_PAUSE, pause * 2)
