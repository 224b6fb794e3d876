"""Lets a consumer that is too far behind skip waiting messages and continue with the newest of each
subject.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial

from nats.js import JetStreamContext

from slackwater.bus.admin.stream_setup import rewind
from slackwater.bus.admin.streams import Topology
from slackwater.bus.consume.metrics import BusMetrics
from slackwater.bus.consume.stats import Counters
from slackwater.telemetry.logs import get_logger

log = get_logger(__name__)

JUMP_PAUSE_SECONDS = 1.0
"""Minimum time between two jumps: each costs broker and reader the newest message of every subject.

With 0.25 s, at ten times the load, ensurance took 0.34 to 0.40 core at ingestion's expense, whose
goodput was 0.78 to 0.97 of its peak (three runs); with 1 s 0.23 to 0.25 core, and 1.1 to 1.3 times
the peak (two). Urgent messages do not wait for a jump.
"""

BATCHES_REMEMBERED = 16
LEAST_BATCHES = 4
"""Minimum number of batches before a throughput is reported."""

Rewind = Callable[[int], Awaitable[int]]
"""Moves a partition's consumer in the broker to the newest message of each subject; returns their
number.
"""


class Throughput:
    """Throughput of one consumer, from which follows how many seconds of work its backlog is.

    The best of the recent batches counts. A batch that waited for an unavailable database says
    nothing about the throughput, and a fast reader after a long outage must not be judged unable to
    catch up. Batches smaller than `smallest` are ignored: fixed costs dominate them.
    """

    def __init__(self, smallest: int) -> None:
        self._smallest = max(1, smallest)
        self._seconds: deque[float] = deque(maxlen=BATCHES_REMEMBERED)

    def handled(self, messages: int, seconds: float) -> None:
        """Record a batch of `messages` that took `seconds`."""
        if messages >= self._smallest:
            self._seconds.append(seconds / messages)

    def behind_seconds(self, waiting: int) -> float:
        """Returns how long `waiting` messages will take; 0 while the throughput is unknown."""
        return waiting * min(self._seconds) if len(self._seconds) >= LEAST_BATCHES else 0.0


@dataclass(slots=True)
class SkipToLatest:
    """The jump policy of a reader: how far behind it must be, and how it jumps."""

    behind_seconds: float
    rewind: Rewind
    jumped: Callable[[int], None]
    """Called with the number of messages skipped by a jump."""
    rests: bool = False
    """Between two jumps, read only the messages of the last one: the next jump brings newer ones,
    and other services need the CPU.
    """

    @property
    def pause_seconds(self) -> float:
        return max(JUMP_PAUSE_SECONDS, self.behind_seconds / 2)


def skip_policy(
    js: JetStreamContext, topology: Topology, consumer: str, counters: Counters, metrics: BusMetrics
) -> SkipToLatest | None:
    """Returns the policy in contracts/streams.yaml; None for a consumer that reads every message,
    however late.
    """
    spec = topology.consumers[consumer]
    if spec.jump_seconds is None:
        return None
    skipped = metrics.skipped.labels(consumer)

    def jumped(unread: int) -> None:
        log.warning("overload: old messages are left unread", consumer=consumer, messages=unread)
        skipped.inc(unread)
        counters.skipped += unread

    return SkipToLatest(spec.jump_seconds, partial(rewind, js, topology, consumer), jumped, rests=spec.latest_only)
