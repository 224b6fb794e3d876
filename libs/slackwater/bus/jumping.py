"""How a consumer that is too far behind lets go of what waits and goes on with the newest message of each subject."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial

from nats.js import JetStreamContext

from slackwater.bus.declaring import rewind
from slackwater.bus.metrics import BusMetrics
from slackwater.bus.stats import Counters
from slackwater.bus.streams import Topology
from slackwater.telemetry.logs import get_logger

log = get_logger(__name__)

JUMP_PAUSE_SECONDS = 1.0
"""At least so long between two jumps: each costs broker and reader the newest message of every subject. With 0.25 s
ensurance took 0.34 to 0.40 of a core at ten times the load, from ingestion, whose goodput was 0.78 to 0.97 of its peak
(three runs); with 1 s 0.23 to 0.25, and 1.1 to 1.3 times the peak (two). What is urgent does not wait for a jump."""

Rewind = Callable[[int], Awaitable[int]]
"""Puts a partition's consumer in the broker on the newest message of each subject; returns how many these are."""


@dataclass(slots=True)
class Jumps:
    """How a reader may jump: how far behind it must be, and by what means."""

    behind_seconds: float
    rewind: Rewind
    jumped: Callable[[int], None]
    """Told how many messages were left unread by a jump."""
    rests: bool = False
    """Between two jumps nothing is read but what the first one led to: the next brings newer, and others have work."""

    @property
    def pause_seconds(self) -> float:
        return max(JUMP_PAUSE_SECONDS, self.behind_seconds / 2)


def jumps_of(
    js: JetStreamContext, topology: Topology, consumer: str, counters: Counters, metrics: BusMetrics
) -> Jumps | None:
    """As contracts/streams.yaml says; None for a consumer that reads everything, however late."""
    spec = topology.consumers[consumer]
    if spec.jump_seconds is None:
        return None
    skipped = metrics.skipped.labels(consumer)

    def jumped(unread: int) -> None:
        log.warning("overload: old messages are left unread", consumer=consumer, messages=unread)
        skipped.inc(unread)
        counters.skipped += unread

    return Jumps(spec.jump_seconds, partial(rewind, js, topology, consumer), jumped, rests=spec.latest_only)
