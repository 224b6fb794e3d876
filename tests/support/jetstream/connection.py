"""The server's side of one client's connection: its subscriptions, and the way back to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Protocol

from tests.support.jetstream.channel import Channel
from tests.support.jetstream.subjects import matches
from tests.support.link import Link


class Receiver(Protocol):
    """The client's side of a connection."""

    def message(self, sid: int, subject: str, reply: str, headers: Mapping[str, str] | None, body: bytes) -> None: ...
    def pong(self) -> None: ...
    def lost(self, connection: ServerConnection) -> None:
        """The connection has ended."""


class ServerConnection:
    """One connection. `name` is the client's, `number` the server's."""

    def __init__(
        self, number: int, name: str, link: Link, receiver: Receiver, ended: Callable[[ServerConnection], None]
    ) -> None:
        self.number = number
        self.name = name
        self.is_open = True
        self.out = Channel(link.send, self.reset)
        """To the server."""
        self.back = Channel(link.deliver, self._broken_at_client)
        self.subjects: dict[str, int] = {}
        """Subscriptions: sid by subject filter."""
        self._by_root: dict[str, dict[str, int]] = {}
        """The same, by the first token of the filter: most are inboxes, which no event matches."""
        self._link = link
        self.receiver = receiver
        self._ended = ended

    def subscribe(self, sid: int, subject: str) -> None:
        self.subjects[subject] = sid
        self._by_root.setdefault(subject.partition(".")[0], {})[subject] = sid

    def unsubscribe(self, sid: int) -> None:
        for subject in [subject for subject, own in self.subjects.items() if own == sid]:
            del self.subjects[subject]
            del self._by_root[subject.partition(".")[0]][subject]

    def deliver(self, target: str, subject: str, reply: str, headers: Mapping[str, str] | None, body: bytes) -> bool:
        """Send a message to the subscription of an inbox. Returns False when there is none."""
        sid = self._sid_of(target)
        if sid is None:
            return False
        self.back.send(partial(self.receiver.message, sid, subject, reply, headers, body))
        return True

    def is_subscribed(self, target: str) -> bool:
        """Returns whether there is a subscription of an inbox."""
        return self._sid_of(target) is not None

    def _sid_of(self, target: str) -> int | None:
        sid = self.subjects.get(target)
        return sid if sid is not None else self.subjects.get(f"{target.rpartition('.')[0]}.*")

    def relay(self, subject: str, reply: str, headers: Mapping[str, str] | None, body: bytes) -> int:
        """Send a message to every subscription that matches; returns their number."""
        sids = []
        for root in (subject.partition(".")[0], "*", ">"):
            subscribed = self._by_root.get(root)
            if subscribed:
                sids += [sid for pattern, sid in subscribed.items() if matches(pattern, subject)]
        for sid in sids:
            self.back.send(partial(self.receiver.message, sid, subject, reply, headers, body))
        return len(sids)

    def close(self) -> None:
        """The client has ended the connection, or its process has ended."""
        if not self.is_open:
            return
        self.is_open = False
        self.out.close()
        self.subjects.clear()
        self._by_root.clear()
        self._ended(self)

    def reset(self) -> None:
        """The server ends the connection, and says so."""
        if self.is_open:
            self.close()
            self._link.deliver(partial(self.receiver.lost, self))

    def _broken_at_client(self) -> None:
        self._link.send(self.close)
        self.receiver.lost(self)
