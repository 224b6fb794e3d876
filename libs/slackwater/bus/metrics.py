"""What the bus counts, per consumer of contracts/streams.yaml."""

from __future__ import annotations

from collections.abc import Sequence

from slackwater.bus.port import Done, Reject, Settlement
from slackwater.telemetry.metrics import DELAY_BUCKETS, Meters


class BusMetrics:
    """All metrics of the bus."""

    def __init__(self, meters: Meters) -> None:
        self.messages = meters.counter(
            "slackwater_bus_messages_total",
            "Messages settled, by consumer and result (done, retry, reject, undecodable, exhausted).",
            ["consumer", "result"],
            look="Anything but done for longer than an outage of a dependency lasts.",
        )
        self.redeliveries = meters.counter(
            "slackwater_bus_redeliveries_total",
            "Messages that came for the second time or later.",
            ["consumer"],
            look="A steady rate: a handler is slower than its ack_wait, or a dependency is away.",
        )
        self.dead_letters = meters.counter(
            "slackwater_bus_dead_letters_total",
            "Messages given up, by consumer and reason.",
            ["consumer", "reason"],
            look="Any growth: somebody sends what nobody understands.",
        )
        self.dead_letters_by_node = meters.counter(
            "slackwater_bus_dead_letters_by_node_total",
            "Messages of agents given up, by the node whose agent published them (stored and dropped; the first 50"
            " nodes of a process have a name, all others are `other`).",
            ["node"],
            look="Growth for one node: its agent sends what cannot be handled.",
        )
        self.dead_letters_dropped = meters.counter(
            "slackwater_bus_dead_letters_dropped_total",
            "Messages of agents given up without a dead letter, because their node had too many: 20 for each consumer,"
            " then one in 10 seconds.",
            ["consumer"],
            look="Any growth: slackwater_bus_dead_letters_by_node_total names the node.",
        )
        self.skipped = meters.counter(
            "slackwater_bus_skipped_total",
            "Messages left unread by a consumer that was too far behind and went on with the newest.",
            ["consumer"],
            look="Any growth: more is reported than can be handled.",
        )
        self.blocked = meters.counter(
            "slackwater_bus_blocked_total",
            "Messages acknowledged unread because an operator has blocked the agent that sent them.",
            ["consumer"],
            look="Growth is expected while an agent is blocked; `slackwater get blocked` names it.",
        )
        self.handling = meters.histogram(
            "slackwater_bus_handling_seconds",
            "How long a handler took for one batch.",
            ["consumer"],
            buckets=DELAY_BUCKETS,
            look="A p99 near the ack_wait of the consumer.",
        )
        self.reconnects = meters.counter(
            "slackwater_bus_reconnects_total",
            "Connections to NATS made anew after a loss.",
            look="More than the broker was restarted.",
        )
        self.publish_failures = meters.counter(
            "slackwater_bus_publish_failures_total",
            "Publishes that the broker did not confirm; the event is tried again or counted as dropped.",
            ["stream"],
            look="Growth: a stream is full or the broker is away.",
        )

    def of(self, consumer: str) -> ConsumerMeter:
        return ConsumerMeter(self, consumer)


class ConsumerMeter:
    """The same for one consumer, labels resolved once: this is asked for every batch of the usage path."""

    def __init__(self, metrics: BusMetrics, consumer: str) -> None:
        self._metrics = metrics
        self._consumer = consumer
        self._done = metrics.messages.labels(consumer, "done")
        self._retry = metrics.messages.labels(consumer, "retry")
        self._reject = metrics.messages.labels(consumer, "reject")
        self._redeliveries = metrics.redeliveries.labels(consumer)
        self._blocked = metrics.blocked.labels(consumer)
        self._handling = metrics.handling.labels(consumer)

    def delivered(self, again: int) -> None:
        """A batch arrived, with so many messages that had been delivered before."""
        if again:
            self._redeliveries.inc(again)

    def blocked(self) -> None:
        """A message of a blocked agent was left unread."""
        self._blocked.inc()

    def handled(self, seconds: float, verdicts: Sequence[Settlement]) -> None:
        self._handling.observe(seconds)
        done = sum(isinstance(verdict, Done) for verdict in verdicts)
        rejected = sum(isinstance(verdict, Reject) for verdict in verdicts)
        self._done.inc(done)
        if rejected:
            self._reject.inc(rejected)
        if len(verdicts) > done + rejected:
            self._retry.inc(len(verdicts) - done - rejected)

    def buried(self, reason: str) -> None:
        """A message is given up. Reasons are codes of our own errors, so there are few."""
        self._metrics.dead_letters.labels(self._consumer, reason).inc()
        if reason == "max_deliver":
            self._metrics.messages.labels(self._consumer, "exhausted").inc()

    def undecodable(self) -> None:
        self._metrics.messages.labels(self._consumer, "undecodable").inc()
