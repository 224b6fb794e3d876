"""Stores dead letters: attributes each to a node, limits the rate per agent, and shrinks a letter
that the broker refuses, so that a failing letter never keeps its message unsettled.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta

from slackwater.bus.codec.cloudevents import Message
from slackwater.bus.consume.dead_letters import BODY_BYTES, DeadLetter
from slackwater.bus.consume.metrics import BusMetrics
from slackwater.bus.consume.token_buckets import TokenBuckets
from slackwater.events import envelope
from slackwater.events.registry import EVENTS
from slackwater.model.errors import Unavailable
from slackwater.model.time import Clock
from slackwater.telemetry.logs import get_logger

log = get_logger(__name__)

LETTERS_AT_ONCE, LETTER_SECONDS = 20, 10.0
"""Per node and consumer: the burst, then one letter per LETTER_SECONDS."""
CUT_BYTES = 8192
WHOLE_AT_ONCE, WHOLE_SECONDS = 4, 600.0
"""Per node: letters above CUT_BYTES that are stored whole, then one per WHOLE_SECONDS. The others are cut, so that the
letters of one agent (the stream has 128 MiB) displace those of no other for an hour.
"""

AGENT_EVENTS = {event.TYPE: event for event in EVENTS if event.FROM_AGENT}

Store = Callable[[DeadLetter, Message], Awaitable[None]]
"""Stores a letter in the form of this message. Raises Unavailable."""


class DeadLetterStore:
    """The dead letters of one process."""

    def __init__(self, store: Store, clock: Clock, metrics: BusMetrics) -> None:
        self._store = store
        self._clock = clock
        self._metrics = metrics
        self._buckets = TokenBuckets[tuple[str, str]](LETTERS_AT_ONCE, LETTER_SECONDS)
        self._whole = TokenBuckets[str](WHOLE_AT_ONCE, WHOLE_SECONDS)

    async def bury(self, letter: DeadLetter) -> bool:
        """Returns whether the letter is stored; False if the message is given up without one.
        Raises Unavailable: retry.
        """
        if not is_of_agent(letter):
            return await self._stored(letter, {})
        key = letter.consumer, letter.node
        if not self._buckets.acquire(key, self._clock.monotonic()):
            self._dropped(key)
            self._count(letter.node)
            return False
        is_small = len(letter.body) <= CUT_BYTES
        is_whole = is_small or self._whole.acquire(letter.node, self._clock.monotonic())
        is_stored = await self._stored(letter, self._about_dropped(key), BODY_BYTES if is_whole else CUT_BYTES)
        self._buckets.settle(key)
        self._count(letter.node)
        return is_stored

    def _dropped(self, key: tuple[str, str]) -> None:
        """Logs a drop once per stored letter, hence at most once in LETTER_SECONDS."""
        self._metrics.dead_letters_dropped.labels(key[0]).inc()
        refused = self._buckets.refused(key)
        if refused is not None and refused.count == 1:
            log.warning("dead letters dropped", consumer=key[0], node=key[1], stored_again_every_seconds=LETTER_SECONDS)

    def _about_dropped(self, key: tuple[str, str]) -> Mapping[str, str]:
        refused = self._buckets.refused(key)
        if refused is None:
            return {}
        since = self._clock.now() - timedelta(seconds=self._clock.monotonic() - refused.since)
        return {"sw-also-dropped": f"{refused.count} since {since.isoformat(timespec='seconds')}"}

    async def _stored(self, letter: DeadLetter, also: Mapping[str, str], largest: int = BODY_BYTES) -> bool:
        for most in (BODY_BYTES, CUT_BYTES, 0):
            if most > largest:
                continue
            try:
                await self._store(letter, letter.message(most_body_bytes=most, also=also))
            except Unavailable:
                raise
            except Exception as error:  # noqa: BLE001 - the letter is at fault: a smaller form is tried, and it is logged
                log.warning("dead letter refused", consumer=letter.consumer, body_bytes=most, error=repr(error)[:500])
                continue
            return True
        log.error("dead letter lost", consumer=letter.consumer, reason=letter.reason, subject=letter.subject)
        return False

    def _count(self, node: str) -> None:
        self._metrics.dead_letters_by_node.labels(self._metrics.node_label(node)).inc()


def is_of_agent(letter: DeadLetter) -> bool:
    """Returns whether an agent published the message."""
    event = AGENT_EVENTS.get(".".join(letter.subject.split(".")[2:4]))
    return event is not None and envelope.is_of_agent(event, letter.subject)
