"""One pull consumer: its position, what it has delivered and not seen acknowledged, and the requests that wait."""

from __future__ import annotations

import json
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from tests.support.jetstream.api_errors import deliver_policy_differs
from tests.support.jetstream.consumer_config import ConsumerLimits
from tests.support.jetstream.consumer_disk import ConsumerSnapshot, Unacknowledged, UnflushedChange
from tests.support.jetstream.pull_request import (
    DELETED,
    HEARTBEAT,
    NANOSECONDS,
    NO_MESSAGES,
    TIMED_OUT,
    PullRequest,
)
from tests.support.jetstream.stream import MemoryStream, Stored
from tests.support.jetstream.subjects import matches_any
from tests.support.jetstream.timers import Timers

FLUSH_SECONDS = 0.1
"""How often nats-server writes the state of a busy consumer: a kill takes back what it did since."""
_ACK_PENDING_IS_FULL = -1


class StreamConsumer:
    """See the module. `config` is JetStream's, as its API has it."""

    def __init__(
        self,
        stream: MemoryStream,
        name: str,
        config: Mapping[str, Any],
        timers: Timers,
        created: datetime,
        on_inactive: Callable[[StreamConsumer], None],
    ) -> None:
        self.stream = stream
        self.name = name
        self.created = created
        self.is_gone = False
        self.delivered_consumer = 0
        self.unacknowledged: dict[int, Unacknowledged] = {}
        self.deliveries: dict[int, int] = {}
        """Deliveries of the unacknowledged messages that were delivered more than once."""
        self._timers = timers
        self._on_inactive = on_inactive
        self._again: dict[int, None] = {}
        self._unread: OrderedDict[int, None] = OrderedDict()
        self._waiting: deque[PullRequest] = deque()
        self._checks_at = float("inf")
        self._unflushed: list[UnflushedChange] = []
        self._flushed_at = float("-inf")
        self._prefix = f"$JS.ACK.{stream.name}.{name}."
        self.config: dict[str, Any] = {}
        self._configure(config)
        self.delivered_stream = self._start()
        self._active_at = timers.now()
        if self.is_ephemeral:
            timers.at(self._active_at + self._limits.inactive_seconds, self._end_if_inactive)

    def _configure(self, config: Mapping[str, Any]) -> None:
        self._limits = ConsumerLimits.of(config)
        self.config = {"replay_policy": "instant", "max_waiting": 512, "num_replicas": 0, **config}
        self.filters = self._limits.filters
        self.is_ephemeral = not config.get("durable_name")
        self.is_in_memory = bool(config.get("mem_storage"))

    def update(self, config: Mapping[str, Any]) -> None:
        """Change the declaration in place. Raises JetStreamError for another start."""
        kept = ("deliver_policy", "opt_start_seq", "opt_start_time", "ack_policy")
        if any(config.get(key) != self.config.get(key) for key in kept):
            raise deliver_policy_differs()
        filters = self.filters
        self._configure(config)
        if filters != self.filters:
            self._list_unread(self.delivered_stream)

    # the start, and the stream's news

    def _start(self) -> int:
        """Find what is to be delivered; returns the sequence that counts as delivered."""
        policy, stream = self.config.get("deliver_policy", "all"), self.stream
        if policy == "last_per_subject":
            self._unread = OrderedDict.fromkeys(stream.last_of_each(self.filters))
            return next(iter(self._unread), stream.last_sequence + 1) - 1
        if policy == "new":
            return stream.last_sequence
        after = stream.first_sequence - 1 if policy == "all" else stream.last_sequence
        if policy == "by_start_sequence":
            after = int(self.config["opt_start_seq"]) - 1
        elif policy == "by_start_time":
            since = datetime.fromisoformat(self.config["opt_start_time"].replace("Z", "+00:00"))
            after = next((at - 1 for at, kept in stream.messages.items() if kept.at >= since), stream.last_sequence)
        self._list_unread(after)
        return after

    def _list_unread(self, after: int) -> None:
        messages = self.stream.messages.items()
        self._unread = OrderedDict.fromkeys(
            at for at, kept in messages if at > after and matches_any(self.filters, kept.message.subject)
        )

    def added(self, sequence: int) -> None:
        """The stream has stored a matching message."""
        if sequence <= self.delivered_stream:
            return  # the consumer starts at a later sequence than the stream has reached
        self._unread[sequence] = None
        if self._waiting:
            self.dispatch()

    def removed(self, sequence: int) -> None:
        """The stream has removed a matching message. One that was delivered will not be delivered again."""
        if self.unacknowledged.pop(sequence, None) is not None:
            self._again.pop(sequence, None)
            self.deliveries.pop(sequence, None)
        else:
            self._unread.pop(sequence, None)

    @property
    def num_pending(self) -> int:
        """Messages that wait to be delivered for the first time."""
        return len(self._unread)

    # requests

    def pull(self, request: PullRequest) -> None:
        """Serve a request, now or later."""
        self._active_at = self._timers.now()
        self._waiting.append(request)
        self.dispatch()
        if request.is_open:
            self._check_at(min(request.expires_at or float("inf"), request.beats_at or float("inf")))

    def dispatch(self) -> None:
        """Deliver to the waiting requests, in turn, until there is nothing more."""
        waiting = self._waiting
        while waiting:
            request = waiting[0]
            if not request.is_open or not request.requester.is_subscribed(request.reply):
                request.is_open = False
                waiting.popleft()
                continue
            sequence = self._next()
            if sequence is None:
                self._end_served()
                return
            if sequence == _ACK_PENDING_IS_FULL:
                return
            waiting.popleft()
            self._deliver(request, sequence)
            if request.left:
                waiting.append(request)

    def _next(self) -> int | None:
        messages = self.stream.messages
        while self._again:
            sequence = next(iter(self._again))
            del self._again[sequence]
            if sequence in self.unacknowledged and sequence in messages:
                self.deliveries[sequence] = self.deliveries.get(sequence, 1) + 1
                return sequence
        if not self._unread:
            return None
        if self._limits.acknowledges and len(self.unacknowledged) >= self._limits.most_unacknowledged:
            return _ACK_PENDING_IS_FULL
        return self._unread.popitem(last=False)[0]

    def _deliver(self, request: PullRequest, sequence: int) -> None:
        now = self._timers.now()
        kept = self.stream.messages[sequence]
        self._note(sequence, now)
        self.delivered_consumer = number = self.delivered_consumer + 1
        if sequence > self.delivered_stream:
            self.delivered_stream = sequence
        request.left -= 1
        request.sent += 1
        if request.heartbeat_seconds:
            request.beats_at = now + request.heartbeat_seconds
        if request.left == 0:
            request.is_open = False
        deliveries = self.deliveries.get(sequence, 1)
        if self._limits.acknowledges:
            self._await_ack(sequence, number, now)
        reply = f"{self._prefix}{deliveries}.{sequence}.{number}.{nanoseconds(kept)}.{len(self._unread)}"
        message = kept.message
        headers, body = message.headers, message.body
        if self._limits.has_headers_only:
            headers, body = {**headers, "Nats-Msg-Size": str(len(body))}, b""
        request.requester.deliver(request.reply, message.subject, reply, headers, body)

    def _await_ack(self, sequence: int, number: int, now: float) -> None:
        due = now + self._limits.ack_wait_seconds
        before = self.unacknowledged.get(sequence)
        if before is None:
            self.unacknowledged[sequence] = Unacknowledged(number, due)
        else:
            before.due = due  # JetStream keeps the number of the first delivery
        self._check_at(due)

    def _end_served(self) -> None:
        """End the requests without wait that have brought something: there is no more."""
        served = [request for request in self._waiting if request.is_no_wait and request.sent]
        for request in served:
            self._waiting.remove(request)
            request.status(NO_MESSAGES)
        impatient = [r for r in self._waiting if r.is_no_wait and r.expires_at is None]
        for request in impatient:
            self._waiting.remove(request)
            request.status(NO_MESSAGES)

    # acknowledgements

    def acknowledge(self, sequence: int, consumer_sequence: int, answer: bytes) -> None:
        """Apply an acknowledgement of a message, of whichever delivery and whenever it comes."""
        if sequence > self.delivered_stream:
            return
        if not answer or answer.startswith((b"+ACK", b"+TERM")):
            self._settle(sequence)
        elif answer.startswith(b"-NAK"):
            self._postpone(sequence, consumer_sequence, answer[4:].strip())
        elif answer.startswith(b"+WPI"):
            pending = self.unacknowledged.get(sequence)
            if pending is not None:
                pending.due = self._timers.now() + self._limits.ack_wait_seconds
                self._check_at(pending.due)

    def _settle(self, sequence: int) -> None:
        if sequence not in self.unacknowledged:
            return
        was_full = len(self.unacknowledged) >= self._limits.most_unacknowledged
        self._note(sequence, self._timers.now())
        del self.unacknowledged[sequence]
        self.deliveries.pop(sequence, None)
        self._again.pop(sequence, None)
        if was_full and self._waiting:
            self.dispatch()

    def _postpone(self, sequence: int, consumer_sequence: int, options: bytes) -> None:
        pending = self.unacknowledged.get(sequence)
        if pending is None or consumer_sequence > self.delivered_consumer:
            return
        delay = json.loads(options).get("delay", 0) / NANOSECONDS if options.startswith(b"{") else 0.0
        if delay > 0:
            pending.due = self._timers.now() + delay
            self._check_at(pending.due)
            return
        self._again.setdefault(sequence)
        if self._waiting:
            self.dispatch()

    # time

    def _check_at(self, when: float) -> None:
        if when < self._checks_at:
            self._checks_at = when
            self._timers.at(when, self._check)

    def _check(self) -> None:
        now = self._timers.now()
        if self.is_gone or now < self._checks_at:
            return
        next_at = float("inf")
        for sequence, pending in self.unacknowledged.items():
            if sequence in self._again:
                continue
            if pending.due <= now:
                self._again[sequence] = None
            elif pending.due < next_at:
                next_at = pending.due
        self._checks_at = float("inf")
        if self._again and self._waiting:
            self.dispatch()
        for request in tuple(self._waiting):
            next_at = min(next_at, self._check_request(request, now))
        if next_at < float("inf"):
            self._check_at(next_at)

    def _check_request(self, request: PullRequest, now: float) -> float:
        """End a request that has expired, or send its heartbeat; returns when to look again."""
        if request.expires_at is not None and request.expires_at <= now and request.is_open:
            counts = {"Nats-Pending-Messages": str(request.left), "Nats-Pending-Bytes": "0"}
            request.status(TIMED_OUT, counts)
        if not request.is_open:
            self._waiting.remove(request)
            return float("inf")
        self._active_at = now
        if request.beats_at is not None and request.beats_at <= now:
            request.beats_at = now + request.heartbeat_seconds
            request.status(HEARTBEAT)
        return min(request.expires_at or float("inf"), request.beats_at or float("inf"))

    def _end_if_inactive(self) -> None:
        if self.is_gone:
            return
        now = self._timers.now()
        if any(request.is_open for request in self._waiting):
            self._active_at = now
        due = self._active_at + self._limits.inactive_seconds
        if now < due:
            self._timers.at(due, self._end_if_inactive)
            return
        self._on_inactive(self)

    # the end, and the disk

    def _note(self, sequence: int, now: float) -> None:
        """Note a message's state before it changes, unless the change is written at once."""
        if now - self._flushed_at >= FLUSH_SECONDS:
            self._flushed_at = now
            self._unflushed.clear()
            return
        pending = self.unacknowledged.get(sequence)
        before = replace(pending) if pending is not None else None
        self._unflushed.append(
            UnflushedChange(
                sequence, before, self.deliveries.get(sequence), self.delivered_consumer, self.delivered_stream
            )
        )

    def discard_unflushed(self) -> None:
        """The server was killed: what was not written has not happened."""
        if self._timers.now() - self._flushed_at < FLUSH_SECONDS:
            unread = set(self._unread)
            for change in reversed(self._unflushed):
                sequence, is_there = change.sequence, change.sequence in self.stream.messages
                self.delivered_consumer, self.delivered_stream = change.delivered_consumer, change.delivered_stream
                self.unacknowledged.pop(sequence, None)
                self.deliveries.pop(sequence, None)
                if change.unacknowledged is None and is_there:
                    unread.add(sequence)
                elif change.unacknowledged is not None and is_there:
                    self.unacknowledged[sequence] = change.unacknowledged
                    if change.deliveries is not None:
                        self.deliveries[sequence] = change.deliveries
            self._unread = OrderedDict.fromkeys(sorted(unread))
        self._unflushed.clear()
        self._again.clear()
        self._checks_at = float("inf")
        self._check_at(self._timers.now())

    def end(self, status: tuple[int, str] | None = DELETED) -> None:
        """The consumer is gone; waiting requests are told, unless the server itself has ended."""
        self.is_gone = True
        waiting, self._waiting = self._waiting, deque()
        for request in waiting:
            if request.is_open and status is not None:
                request.status(status)

    def drop_requests(self) -> None:
        """The server has ended with all its connections."""
        self._waiting.clear()

    def snapshot(self) -> ConsumerSnapshot:
        """Returns what a restart would find now."""
        pending = {sequence: replace(pending) for sequence, pending in self.unacknowledged.items()}
        return ConsumerSnapshot(
            self.delivered_consumer, self.delivered_stream, pending, dict(self.deliveries), tuple(self._unread)
        )

    def restore(self, snapshot: ConsumerSnapshot) -> None:
        """Go back to a snapshot: what was delivered or acknowledged since then is not known any more."""
        self._unflushed.clear()
        messages, last = self.stream.messages, self.stream.last_sequence
        self.delivered_consumer = snapshot.delivered_consumer
        self.delivered_stream = min(snapshot.delivered_stream, last)
        self.unacknowledged = {at: replace(p) for at, p in snapshot.unacknowledged.items() if at in messages}
        self.deliveries = {at: count for at, count in snapshot.deliveries.items() if at in self.unacknowledged}
        self._again = {}
        known = {at for at in snapshot.unread if at in messages}
        newer = max(snapshot.unread, default=self.delivered_stream)
        known.update(
            at for at, kept in messages.items() if at > newer and matches_any(self.filters, kept.message.subject)
        )
        self._unread = OrderedDict.fromkeys(sorted(known))
        self._checks_at = float("inf")
        self._check_at(self._timers.now())

    def info(self) -> dict[str, Any]:
        """Returns the state as the API shows it."""
        floor = min((p.consumer_sequence for p in self.unacknowledged.values()), default=self.delivered_consumer + 1)
        waiting = sum(request.is_open for request in self._waiting)
        return {
            "stream_name": self.stream.name,
            "name": self.name,
            "created": self.created.isoformat(),
            "config": {"name": self.name, **self.config},
            "delivered": {"consumer_seq": self.delivered_consumer, "stream_seq": self.delivered_stream},
            "ack_floor": {"consumer_seq": floor - 1, "stream_seq": self.settled_up_to()},
            "num_ack_pending": len(self.unacknowledged),
            "num_redelivered": len(self.deliveries),
            "num_waiting": waiting,
            "num_pending": len(self._unread),
        }

    def settled_up_to(self) -> int:
        """Returns the sequence up to which everything is acknowledged."""
        return min(self.unacknowledged, default=self.delivered_stream + 1) - 1


def nanoseconds(kept: Stored) -> int:
    """Returns when a message was stored, in nanoseconds since 1970."""
    at = kept.at
    return int(at.timestamp()) * NANOSECONDS + at.microsecond * 1000
