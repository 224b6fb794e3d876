"""Honest agents that cross their waterline again and again and wait for what ensurance asks of them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import datetime

from tests.faults.attack import HonestAgent
from tests.faults.ledger import Key, Outcome
from tests.support.reports import pod_usage, report

from slackwater.events.envelope import Event, event_of
from slackwater.events.intent_declared import IntentDeclared
from slackwater.events.intent_observed import IntentObserved, ObservedLimit
from slackwater.events.measures import Pressure
from slackwater.events.usage_reported import UsageReported
from slackwater.events.waterline_crossed import URGENT_TRIGGER, crossing_of
from slackwater.model.errors import Unavailable
from slackwater.model.tiers import Tier
from slackwater.model.time import SystemClock

PROD_MILLI, CALM_MILLI, BATCH_MILLI = 6_000, 1_000, 9_000
WINDOW_SECONDS = 0.5


@dataclass
class GuardedAgent(HonestAgent):
    """Reports use above its waterline until the limit of its batch pod arrives, then once use below it; then a new
    batch pod takes the place of the last one, so that each crossing needs a new limit.
    """

    crossed: dict[str, float] = field(default_factory=dict)
    """When a crossing with this batch pod was sent."""
    limited: dict[str, float] = field(default_factory=dict)
    """When this batch pod's first limit arrived."""
    _is_over: bool = False
    _generations: dict[str, int] = field(default_factory=dict)
    _answering: set[asyncio.Task[None]] = field(default_factory=set)

    async def follow(self, stack: AsyncExitStack) -> None:
        """Receive the node's intents until the stack is closed."""
        await stack.enter_async_context(self.bus.watch(IntentDeclared, self._intent, key=self.node))

    def reactions(self) -> Iterator[tuple[float, float | None]]:
        """When each crossing was sent, and when its limit arrived."""
        for pod, at in self.crossed.items():
            yield at, self.limited.get(pod)

    def usage(self, now: datetime) -> UsageReported:
        waits = self._is_over and self._batch not in self.limited
        crosses = not self._is_over
        self._is_over = waits or crosses
        if crosses:
            self.crossed[f"{self.node}-batch-{len(self.crossed)}"] = time.time()
        used = BATCH_MILLI if self._is_over else CALM_MILLI
        pods = [
            pod_usage(f"{self.node}-prod", Tier.PROD, PROD_MILLI),
            pod_usage(self._batch, Tier.BATCH, used, workload="default/batch"),
        ]
        data = report(self.node, self.sequence, now, boot_epoch=self.epoch, cpu_milli=PROD_MILLI + used, pods=pods,
                      window_seconds=WINDOW_SECONDS)  # fmt: skip
        if not self._is_over:
            return data
        pressure = Pressure(cpu_some_last=0.6, cpu_some_avg=0.6, cpu_some_max=0.6)
        trigger = URGENT_TRIGGER if crosses else data.trigger
        return data.model_copy(update={"prod_pressure": pressure, "trigger": trigger})

    @property
    def _batch(self) -> str:
        """The batch pod of the last crossing."""
        return next(reversed(self.crossed), "")

    async def send(self, event: Event[UsageReported]) -> None:
        crossing = crossing_of(event)
        if crossing is None:
            await self.bus.publish(event)
        else:
            await asyncio.gather(self.bus.publish(crossing), self.bus.publish(event))

    async def _intent(self, event: Event[IntentDeclared]) -> None:
        now, document = time.time(), event.data
        for limit in document.throttles:
            self.limited.setdefault(limit.pod_uid, now)
        if document.generation > self._generations.get(document.writer, 0):
            self._generations[document.writer] = document.generation
            task = asyncio.create_task(self._answer(document))
            self._answering.add(task)
            task.add_done_callback(self._answering.discard)

    async def _answer(self, document: IntentDeclared) -> None:
        now = SystemClock().now()
        limits = tuple(
            ObservedLimit(pod_uid=one.pod_uid, cpu_limit_milli=one.cpu_limit_milli, decision_id=one.decision_id)
            for one in document.throttles
        )
        seen = IntentObserved(node=self.node, writer=document.writer, generation=document.generation,
                              boot_epoch=self.epoch, received_at=now, observed_at=now, limits=limits)  # fmt: skip
        answer = event_of(seen, source=f"agent/{self.node}", time=now)
        key = Key("intent.observed", answer.id)
        self.ledger.meant(key)
        try:
            await self.bus.publish(answer)
        except Unavailable:
            return
        self.ledger.came(key, Outcome.ACKED)


def reactions(agents: Collection[GuardedAgent], began: float, ended: float) -> list[float]:
    """Seconds from each crossing sent in this time until its limit arrived; of one without a limit its age."""
    now = time.time()
    return [
        (now if limited is None else limited) - at
        for agent in agents
        for at, limited in agent.reactions()
        if began <= at < ended
    ]
