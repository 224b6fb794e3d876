"""Rates of agents: a reader leaves unread what one agent publishes faster than any agent has reason to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from slackwater.bus.codec.failures import node_of
from slackwater.bus.consume.agent_blocks import BlockGate, Blocks
from slackwater.bus.consume.metrics import BusMetrics
from slackwater.bus.consume.stats import Counters
from slackwater.bus.consume.token_buckets import TokenBuckets
from slackwater.events.envelope import Payload, is_of_agent
from slackwater.telemetry.logs import get_logger

if TYPE_CHECKING:
    from slackwater.bus.consume.settlement import Delivery, Gate

log = get_logger(__name__)

AT_ONCE, EVERY_SECONDS = 200, 1 / 16
"""Per node and reader: the burst, then one message per EVERY_SECONDS. An agent reports once a second at most, and no
stream keeps more than 200 messages of one of its subjects (a test holds that).
"""
BYTES_AT_ONCE, BYTES_EVERY_SECONDS = 4 * 1_048_576, 1 / 1_048_576
"""Likewise in bytes: 4 MiB at once, then 1 MiB a second, which is the largest report, of 1,900 pods, once a second. A
refused message of 1 MB costs each of its readers 8 to 28 ms of CPU.
"""
UNREADABLE_COST = 10
"""Messages that one which cannot be read, or speaks for another node, counts as: no agent in order sends any, and each
is a dead letter, or a line in the log, of each of its readers.
"""
HELD_SECONDS = 5.0
"""Until a last value is delivered again, unless a newer one has taken its place."""
LOG_SECONDS = 60.0

Weight = Callable[[str], int]
"""Returns the bytes that a report of a node weighs beside its own, for the roster that it is joined with."""


def agent_gates(
    payload: type[Payload],
    consumer: str,
    blocks: Callable[[], Blocks],
    counters: Counters,
    metrics: BusMetrics,
    weight: Weight,
    *,
    keeps_last: bool,
) -> Sequence[Gate]:
    """Returns what messages of agents pass before a consumer reads them; none for a type that no agent publishes."""
    if not payload.FROM_AGENT:
        return ()
    return (
        BlockGate(payload, blocks, counters, metrics.of(consumer), keeps_last=keeps_last),
        RateGate(payload, consumer, counters, metrics, weight, keeps_last=keeps_last),
    )


class AgentRates:
    """What one reader may still read of each agent. What is above is counted by node, and logged once a minute."""

    def __init__(self, payload: type[Payload], reader: str, metrics: BusMetrics, weight: Weight) -> None:
        self._payload = payload
        self._weight = weight if payload.WIRE is not None else _weightless
        self._reader = reader
        self._metrics = metrics
        self._rates = TokenBuckets[str](AT_ONCE, EVERY_SECONDS)
        self._byte_rates = TokenBuckets[str](BYTES_AT_ONCE, BYTES_EVERY_SECONDS)
        self._logged = TokenBuckets[str](1, LOG_SECONDS)

    def allows(self, subject: str, at_seconds: float, size_bytes: int) -> bool:
        """Returns whether a message is to be read, which then counts; always for what a service says."""
        if not is_of_agent(self._payload, subject):
            return True
        node = node_of(subject)
        weight = size_bytes + self._weight(node)
        return self._rates.acquire(node, at_seconds) and self._byte_rates.acquire(node, at_seconds, weight)

    def charge(self, subject: str, at_seconds: float) -> None:
        """Count a message that was read in vain UNREADABLE_COST times."""
        if is_of_agent(self._payload, subject):
            self._rates.charge(node_of(subject), at_seconds, UNREADABLE_COST - 1)

    def note(self, subject: str, at_seconds: float) -> None:
        """Count a message that is left unread."""
        node = node_of(subject)
        self._metrics.over_rate.labels(self._metrics.node_label(node)).inc()
        if self._logged.acquire(node, at_seconds):
            log.warning("messages of an agent left unread", reader=self._reader, node=node, reason="rate")


class RateGate:
    """Settles the messages of one consumer that are above the rate of their agent, unread. Times are those at which the
    broker stored them, so that a backlog is no flood. Where the stream keeps the last value (`keeps_last`) it is
    delivered again later, because it may be what is in force.
    """

    def __init__(
        self,
        payload: type[Payload],
        consumer: str,
        counters: Counters,
        metrics: BusMetrics,
        weight: Weight,
        *,
        keeps_last: bool,
    ) -> None:
        self._rates = AgentRates(payload, consumer, metrics, weight)
        self._counters = counters
        self._keeps_last = keeps_last

    def unreadable(self, delivery: Delivery) -> None:
        self._rates.charge(delivery.subject, delivery.stored_at_seconds)

    async def admit(self, batch: Sequence[Delivery]) -> Sequence[Delivery]:
        """Returns the messages to handle; the others are settled."""
        admitted: list[Delivery] = []
        for delivery in batch:
            subject, stored_at = delivery.subject, delivery.stored_at_seconds
            if delivery.deliveries > 1 or self._rates.allows(subject, stored_at, len(delivery.body)):
                admitted.append(delivery)
                continue
            self._rates.note(subject, stored_at)
            if self._keeps_last:
                await delivery.nak(HELD_SECONDS)
            else:
                self._counters.done += 1
                await delivery.ack()
        return admitted


def _weightless(node: str) -> int:
    """Implements Weight for what is joined with nothing."""
    return 0
