"""What the bus counts, per consumer of contracts/streams.yaml."""

from __future__ import annotations

from collections.abc import Sequence

from slackwater.bus.port import Done, Reject, Settlement
from slackwater.telemetry.metrics import DELAY_BUCKETS, Meters

MOST_NODES = 50
"""Nodes with a series of their own in a metric of nodes; the others share one series. An alert names only a few."""
OTHER = "other"


class BusMetrics:
    """All metrics of the bus."""

    def __init__(self, meters: Meters) -> None:
        self._named: set[str] = set()
        self._add_agents(meters)
        self.messages = meters.counter(
            "slackwater_bus_messages_total",
            "Messages settled (done, retry, reject, undecodable, exhausted).",
            ["consumer", "result"],
            look="Other than done for longer than an outage.",
        )
        self.redeliveries = meters.counter(
            "slackwater_bus_redeliveries_total",
            "Messages delivered more than once.",
            ["consumer"],
            look="Steady: a handler exceeds ack_wait, or a dependency is away.",
        )
        self.dead_letters = meters.counter(
            "slackwater_bus_dead_letters_total",
            "Messages given up.",
            ["consumer", "reason"],
            look="Any growth: unusable messages are sent.",
        )
        self.skipped = meters.counter(
            "slackwater_bus_skipped_total",
            "Messages skipped unread by a lagging consumer.",
            ["consumer"],
            look="Any growth: overload.",
        )
        self.handling = meters.histogram(
            "slackwater_bus_handling_seconds",
            "Duration of handling a batch.",
            ["consumer"],
            buckets=DELAY_BUCKETS,
            look="p99 near the consumer's ack_wait.",
        )
        self.reconnects = meters.counter(
            "slackwater_bus_reconnects_total",
            "Reconnections to NATS.",
            look="More than broker restarts.",
        )
        self.publish_failures = meters.counter(
            "slackwater_bus_publish_failures_total",
            "Unconfirmed publishes, retried or counted as dropped.",
            ["stream"],
            look="Growth: a stream is full or the broker is away.",
        )

    def _add_agents(self, meters: Meters) -> None:
        """Add what counts messages of agents."""
        self.dead_letters_by_node = meters.counter(
            "slackwater_bus_dead_letters_by_node_total",
            "Agents' messages given up, stored or dropped (the first 50 nodes of a process; then `other`).",
            ["node"],
            look="Growth for a node: its agent sends unusable messages.",
        )
        self.dead_letters_dropped = meters.counter(
            "slackwater_bus_dead_letters_dropped_total",
            "Agents' messages given up without a dead letter: beyond 20 per node and consumer, then one in 10 s.",
            ["consumer"],
            look="Any growth: see slackwater_bus_dead_letters_by_node_total.",
        )
        self.blocked = meters.counter(
            "slackwater_bus_blocked_total",
            "Messages of blocked agents, unread.",
            ["consumer"],
            look="Expected during a block; see `slackwater get blocked`.",
        )
        self.roster_missing = meters.counter(
            "slackwater_bus_roster_missing_total",
            "Reports left out, because the roster that they count by is not there.",
            ["consumer"],
            look="Growth: the broker lost rosters; agents publish them again within five minutes.",
        )
        self.over_rate = meters.counter(
            "slackwater_bus_over_rate_total",
            "Agents' messages left unread: beyond 200 (4 MiB) per node and consumer at once, then 16 (1 MiB) a second.",
            ["node"],
            look="Any growth: the agent of the node floods.",
        )
        self.held = meters.counter(
            "slackwater_bus_held_agents_total",
            "Holds of agents off the broker, for 30 s to 10 min: beyond 2,000 messages or 32 MiB at once, then 200 or"
            " 8 MiB a second, or for PINGs, subscriptions and connections again and again.",
            ["node"],
            look="Any growth: the agent of the node floods, and its node is lost meanwhile.",
        )

    def node_label(self, node: str) -> str:
        """Returns the label of a node: its name, or OTHER after MOST_NODES of them."""
        if len(self._named) < MOST_NODES:
            self._named.add(node)
        return node if node in self._named else OTHER

    def of(self, consumer: str) -> ConsumerMeter:
        return ConsumerMeter(self, consumer)


class ConsumerMeter:
    """The metrics of one consumer, with labels resolved once because every batch of the usage path
    uses them.
    """

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
        """Count a batch, and the messages in it that had been delivered before."""
        if again:
            self._redeliveries.inc(again)

    def blocked(self) -> None:
        """Count a message of a blocked agent, acknowledged unread."""
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
        """Count a message given up. Reasons are Slackwater's own codes, so the label is bounded."""
        self._metrics.dead_letters.labels(self._consumer, reason).inc()
        if reason == "max_deliver":
            self._metrics.messages.labels(self._consumer, "exhausted").inc()

    def undecodable(self) -> None:
        self._metrics.messages.labels(self._consumer, "undecodable").inc()
