"""Settlement: what happens to each message of a batch, the same on NATS and on the in-memory bus.

Every message ends acknowledged or in the dead letters, or is redelivered. The verdicts come from
slackwater.bus.consume.handlers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from slackwater.bus.admin.streams import ConsumerSpec
from slackwater.bus.codec.cloudevents import subject_key
from slackwater.bus.consume.cooperative import AT_ONCE, FLOOD_PAUSE_SECONDS, is_flood, yield_between
from slackwater.bus.consume.handlers import Bury, Handling, Readable
from slackwater.bus.consume.stats import Counters
from slackwater.bus.consume.unread_removal import Remove
from slackwater.bus.port import BatchHandler, Done, Received, Reject, Retry, Settlement, Worth
from slackwater.bus.rosters.known_rosters import KnownRosters
from slackwater.events.envelope import Payload, is_in_its_shard
from slackwater.events.rosters import RosterMissing, no_roster
from slackwater.model.errors import Unavailable
from slackwater.telemetry.logs import get_logger

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

P = TypeVar("P", bound=Payload)

log = get_logger(__name__)


AWAY_SECONDS = 2.0
"""Longest pause while a dependency is unavailable, so that waiting messages are handled soon after
it returns.
"""
UNSEEN_FACTOR = 4
"""Limit for a message new to this process, in multiples of `max_deliver`. Deliveries during an
outage do not count, but only the process that had them knows. Beyond the limit the message is
assumed to crash processes.
"""
KEEP_FACTOR = 2
"""From this multiple of `max_deliver` on, a message is kept in hand during an outage, and not given
back: the broker counts no delivery. So an outage does not use up the limit for other processes,
and what lies above are deliveries without an answer: crashes.
"""
KEEP_SECONDS, MOST_KEEP_SECONDS = 30.0, 900.0
"""Kept so long the first time, then twice as long with each delivery, up to the second: an outage of 30
minutes (with `max_deliver` 3; 90 with 5) stays below the limit, also where processes change. In
between, other messages have their turn: if one is handled, there is no outage, and the message is
not kept again.
"""


ROSTER_DELIVERIES, ROSTER_SECONDS = 4, 0.25
"""A report whose roster is not there is delivered so often (at most `max_deliver` times), with such pauses: a roster is
stored before its reports, but a reader may meet the two in another order."""


class Delivery(Readable, Protocol):
    """One message in hand, and the acknowledgements that the broker supports."""

    @property
    def deliveries(self) -> int: ...
    @property
    def stored_at_seconds(self) -> float: ...
    @property
    def is_current(self) -> bool:
        """Whether this process still has to settle it."""
        ...

    async def ack(self) -> None: ...
    async def nak(self, delay_seconds: float) -> None: ...
    async def term(self) -> None: ...
    async def in_progress(self) -> None: ...


class Gate(Protocol):
    """Selects the messages of a batch to handle, and settles the others (see BlockGate, RateGate)."""

    async def admit(self, batch: Sequence[Delivery]) -> Sequence[Delivery]: ...
    def unreadable(self, delivery: Delivery) -> None:
        """A message that was admitted could not be read."""
        ...


class Settler(Generic[P]):
    """Takes batches of one consumer through decoding, the handler and settlement."""

    def __init__(
        self,
        payload: type[P],
        consumer: str,
        spec: ConsumerSpec,
        handler: BatchHandler[P],
        bury: Bury,
        counters: Counters,
        *,
        rosters: KnownRosters | None = None,
        worth: Worth | None = None,
        gates: Sequence[Gate] = (),
        remove: Remove | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        find = no_roster if rosters is None else rosters.find
        self._handling = Handling(payload, consumer, handler, bury, counters, find=find)
        self._rosters = rosters
        self._is_worth_reading = worth
        self._gates = gates
        self._remove = remove
        self._consumer = consumer
        self._spec = spec
        self._counters = counters
        self._sleep = sleep
        self._excused: dict[int, int] = {}
        self._handled = 0
        self._kept: dict[int, int] = {}
        """Messages that were kept and given back, with `_handled` at that time."""

    async def settle(self, batch: Sequence[Delivery]) -> None:
        """Handle and settle every message. Raises nothing but cancellation."""
        self._counters.delivered += len(batch)
        self._counters.pending = batch[-1].pending
        self._handling.meter.delivered(sum(delivery.deliveries > 1 for delivery in batch))
        admitted = batch
        for gate in self._gates:
            admitted = await gate.admit(admitted)
        await self._settle_admitted(admitted)
        if is_flood(len(batch) - len(admitted), len(batch)):
            await self._sleep(FLOOD_PAUSE_SECONDS)

    async def _settle_admitted(self, batch: Sequence[Delivery]) -> None:
        left = list(await self._worth_reading(batch))
        async with _kept_in_progress(left, self._spec.ack_wait_seconds / 2):
            if not self._spec.latest_only:
                await self._settle_together(left)
                return
            left.reverse()
            while left:  # small steps: latency matters here more than a tenth of the throughput
                await self._settle_together(left[: -AT_ONCE - 1 : -1])
                del left[-AT_ONCE:]

    async def _settle_together(self, deliveries: Sequence[Delivery]) -> None:
        together: list[tuple[Delivery, Received[P] | RosterMissing]] = []
        for number, delivery in enumerate(deliveries, 1):
            if self._spec.latest_only:
                await yield_between(number)
            received = await self._read(delivery)
            if received is not None:
                together.append((delivery, received))
        missing = [received for _, received in together if isinstance(received, RosterMissing)]
        pairs = await self._with_rosters(together, missing) if missing else together
        await self._handle([(delivery, received) for delivery, received in pairs if isinstance(received, Received)])

    async def _with_rosters(
        self, pairs: Sequence[tuple[Delivery, Received[P] | RosterMissing]], missing: Sequence[RosterMissing]
    ) -> Sequence[tuple[Delivery, Received[P] | RosterMissing]]:
        """Returns the deliveries with the rosters that are in the stream now. One whose roster is not there waits and
        is read again (see ROSTER_DELIVERIES); then it is left out and counted.
        """
        try:
            if self._rosters is not None:
                await self._rosters.load(missing)
        except Unavailable as error:
            for delivery in [delivery for delivery, received in pairs if isinstance(received, RosterMissing)]:
                await self._carry_out(delivery, Retry(error.message, away=True))
            return pairs
        read: list[tuple[Delivery, Received[P] | RosterMissing]] = []
        for delivery, received in pairs:
            again = await self._read(delivery) if isinstance(received, RosterMissing) else received
            if isinstance(again, RosterMissing):
                await self._await_roster(delivery)
            elif again is not None:
                read.append((delivery, again))
        return read

    async def _await_roster(self, delivery: Delivery) -> None:
        if self._counted(delivery) < min(ROSTER_DELIVERIES, self._spec.max_deliver):
            self._counters.retried += 1
            await delivery.nak(ROSTER_SECONDS)
            return
        if self._rosters is not None:
            self._rosters.missed(self._consumer)
        await self._carry_out(delivery, Done())

    async def _worth_reading(self, batch: Sequence[Delivery]) -> Sequence[Delivery]:
        """Returns the messages to handle: all, or with `latest_only` the newest of each subject;
        with `worth` those it accepts. The others are acknowledged unread.
        """
        if not self._spec.latest_only and self._is_worth_reading is None:
            return batch
        newest = {delivery.subject: delivery for delivery in batch} if self._spec.latest_only else {}
        worth_reading = []
        for delivery in batch:
            if newest.get(delivery.subject, delivery) is delivery and self._wants(delivery):
                worth_reading.append(delivery)
            else:
                self._counters.done += 1
                await delivery.ack()
        return worth_reading

    def _wants(self, delivery: Delivery) -> bool:
        return self._is_worth_reading is None or self._is_worth_reading(subject_key(delivery.subject))

    async def _read(self, delivery: Delivery) -> Received[P] | RosterMissing | None:
        """Returns the event of a delivery, or the roster that it lacks; None if there is none to handle, and then the
        delivery is settled.
        """
        if self._used_up(delivery):
            await self._exhausted(delivery, f"delivered {delivery.deliveries - 1} times and never settled")
            return None
        try:
            received = self._handling.decode(
                delivery, deliveries=delivery.deliveries, stored_at_seconds=delivery.stored_at_seconds
            )
        except RosterMissing as missing:
            return missing
        except Unavailable as error:
            await self._carry_out(delivery, Retry(error.message))
            return None
        key = subject_key(delivery.subject)
        if self._spec.partitioned and isinstance(received, Received) and not is_in_its_shard(delivery.subject, key):
            why = f"{key!r} does not belong to the shard of {delivery.subject}"
            received = self._handling.undecodable("wrong_shard", why)
        if isinstance(received, Reject):
            for gate in self._gates:
                gate.unreadable(delivery)
            if await self._bury(delivery, received.reason, received.detail) and self._remove is not None:
                await self._remove(delivery.stream_sequence)
            return None
        return received

    def _used_up(self, delivery: Delivery) -> bool:
        """Returns whether earlier deliveries already exceed the limit."""
        if delivery.stream_sequence not in self._excused:
            return delivery.deliveries > UNSEEN_FACTOR * self._spec.max_deliver
        return self._counted(delivery) > self._spec.max_deliver

    def _counted(self, delivery: Delivery) -> int:
        """Returns the deliveries, without those during which a dependency was unavailable."""
        return delivery.deliveries - self._excused.get(delivery.stream_sequence, 0)

    def _excuse(self, delivery: Delivery) -> None:
        """Do not count this delivery, nor those of a message new to this process: the outage began before."""
        excused = self._excused.get(delivery.stream_sequence, delivery.deliveries - 1)
        self._excused[delivery.stream_sequence] = excused + 1

    def _has_failed_enough(self, delivery: Delivery) -> bool:
        """Returns whether a message that has failed now is to be given up. Of a message new to this
        process, more than `max_deliver` earlier deliveries were not failures: it would be a dead letter.
        """
        if delivery.stream_sequence not in self._excused and delivery.deliveries > self._spec.max_deliver:
            self._excused[delivery.stream_sequence] = delivery.deliveries - 1
        return self._counted(delivery) >= self._spec.max_deliver

    async def _handle(self, pairs: Sequence[tuple[Delivery, Received[P]]]) -> None:
        waited_seconds = 0.0
        while pairs:
            verdicts = await self._handling.verdicts([received for _, received in pairs])
            kept: list[tuple[Delivery, Received[P]]] = []
            for (delivery, received), verdict in zip(pairs, verdicts, strict=True):
                if self._keeps(delivery, verdict, waited_seconds):
                    kept.append((delivery, replace(received, deliveries=received.deliveries + 1)))
                else:
                    await self._carry_out(delivery, verdict)
            if not kept:
                return
            seconds = min(AWAY_SECONDS, *(self._pause(delivery) for delivery, _ in kept))
            await self._sleep(seconds)
            waited_seconds += seconds
            pairs = [pair for pair in kept if pair[0].is_current]
            for delivery, _ in kept:
                if not delivery.is_current:
                    await self._carry_out(delivery, Retry("no longer in hand", delay_seconds=0.0, away=True))

    def _keeps(self, delivery: Delivery, verdict: Settlement, waited_seconds: float) -> bool:
        """Returns whether to handle a message again without giving it back (see KEEP_FACTOR)."""
        if not isinstance(verdict, Retry) or not verdict.outage or verdict.delay_seconds is not None:
            return False
        if delivery.deliveries < KEEP_FACTOR * self._spec.max_deliver or not delivery.is_current:
            return False
        if self._kept.get(delivery.stream_sequence, self._handled) != self._handled:
            return False
        if waited_seconds < self._keep_seconds(delivery):
            return True
        self._kept[delivery.stream_sequence] = self._handled
        return False

    def _keep_seconds(self, delivery: Delivery) -> float:
        doublings = min(delivery.deliveries - KEEP_FACTOR * self._spec.max_deliver, 16)
        return min(KEEP_SECONDS * 2.0**doublings, MOST_KEEP_SECONDS)

    async def _carry_out(self, delivery: Delivery, verdict: Settlement) -> None:
        match verdict:
            case Done():
                self._counters.done += 1
                self._handled += 1
                self._drop(delivery)
                await delivery.ack()
            case Retry(_, delay, away=True):
                self._counters.retried += 1
                self._excuse(delivery)
                await delivery.nak(min(self._pause(delivery), AWAY_SECONDS) if delay is None else delay)
            case Retry(reason) if self._has_failed_enough(delivery):
                await self._exhausted(delivery, f"delivered {delivery.deliveries} times; last: {reason}")
            case Retry(_, delay):
                self._counters.retried += 1
                await delivery.nak(self._pause(delivery) if delay is None else delay)
            case Reject(reason, detail):
                self._counters.rejected += 1
                await self._bury(delivery, reason, detail)

    async def _exhausted(self, delivery: Delivery, detail: str) -> None:
        self._counters.exhausted += 1
        await self._bury(delivery, "max_deliver", detail)

    async def _bury(self, delivery: Delivery, reason: str, detail: str) -> bool:
        """Give up a message. Returns False if it is delivered again, because no dead letter can be stored now."""
        try:
            await self._handling.bury(self._handling.letter(delivery, reason, detail))
        except Unavailable as error:  # never terminate what is not in the dead letters
            log.warning("dead letter not stored", consumer=self._consumer, error=error.message)
            await delivery.nak(self._pause(delivery))
            return False
        self._drop(delivery)
        await delivery.term()
        return True

    def _drop(self, delivery: Delivery) -> None:
        self._excused.pop(delivery.stream_sequence, None)
        self._kept.pop(delivery.stream_sequence, None)

    def _pause(self, delivery: Delivery) -> float:
        steps = self._spec.backoff_seconds
        return steps[min(delivery.deliveries, len(steps)) - 1]


@asynccontextmanager
async def _kept_in_progress(deliveries: Sequence[Delivery], every_seconds: float) -> AsyncIterator[None]:
    """Sends in-progress acknowledgements, so that a slow handler is not overtaken by a
    redelivery. Most batches are settled before the first is due, so only a timer is set for it.
    """
    loop = asyncio.get_running_loop()
    sending: asyncio.Task[None] | None = None

    async def beat() -> None:
        while True:
            for delivery in tuple(deliveries):
                await delivery.in_progress()
            await asyncio.sleep(every_seconds)

    def begin() -> None:
        nonlocal sending
        sending = loop.create_task(beat())

    timer = loop.call_later(every_seconds, begin)
    try:
        yield
    finally:
        timer.cancel()
        if sending is not None:
            sending.cancel()
            await asyncio.wait({sending})
