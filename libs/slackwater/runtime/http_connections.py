"""Bounds the open connections of a listener, so that descriptors remain for PostgreSQL, NATS and files, and a new
connection always finds room.
"""

from __future__ import annotations

import resource
from typing import Protocol

from slackwater.runtime.http_metrics import HttpMetrics
from slackwater.runtime.settings import HttpSettings

PARTS = 4
"""A listener gets one part of the process's descriptors. At most three listen (HTTP, gRPC, a webhook): one part is
left for everything else.
"""
FEWEST = 8


def connection_limit(settings: HttpSettings) -> int:
    """Returns the most connections of one listener: the setting, but at most a quarter of RLIMIT_NOFILE."""
    descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if descriptors == resource.RLIM_INFINITY:
        return settings.connections
    return max(FEWEST, min(settings.connections, descriptors // PARTS))


def stream_limit(settings: HttpSettings) -> int:
    """Returns the most event streams: half of the connections, so that streams never hold them all."""
    return connection_limit(settings) // 2


class AcceptedConnection(Protocol):
    """What a listener has accepted."""

    def close_now(self) -> None:
        """Close without waiting for the peer; `OpenConnections.remove` follows."""
        ...


class OpenConnections:
    """The open connections of one listener. At the limit, the connection that waits the longest makes room for a new
    one.

    A connection waits while it has no complete request: in a TLS handshake, between requests, or with part of a
    request. With a complete request it is kept until its answer is complete, but at most three quarters of the
    connections are kept at a time: more requests than that are answered too, and may be closed for a new connection.
    """

    def __init__(self, limit: int, metrics: HttpMetrics) -> None:
        self.limit = limit
        self._most_kept = limit - max(1, limit // 4)
        self._metrics = metrics
        self._waiting: dict[AcceptedConnection, None] = {}
        """The longest first."""
        self._kept: set[AcceptedConnection] = set()
        metrics.limit.set(limit)

    def __len__(self) -> int:
        return len(self._waiting) + len(self._kept)

    def add(self, connection: AcceptedConnection) -> None:
        """Add a new connection; at the limit, close the one that waits the longest."""
        if len(self) >= self.limit:
            self.close_oldest()
        self._waiting[connection] = None
        self._metrics.open.inc()

    def keep(self, connection: AcceptedConnection) -> None:
        """Its request is complete: do not close it for a new connection."""
        if connection in self._waiting and len(self._kept) < self._most_kept:
            del self._waiting[connection]
            self._kept.add(connection)

    def wait(self, connection: AcceptedConnection) -> None:
        """It waits, from now on, for a request or for the rest of one."""
        if connection in self._kept or connection in self._waiting:
            self._kept.discard(connection)
            self._waiting.pop(connection, None)
            self._waiting[connection] = None

    def remove(self, connection: AcceptedConnection) -> None:
        """It is closed. May be called twice."""
        if connection in self._kept or connection in self._waiting:
            self._kept.discard(connection)
            self._waiting.pop(connection, None)
            self._metrics.open.dec()

    def close_oldest(self) -> None:
        """Close the connection that waits the longest. There is one at the limit, because not all are kept."""
        if self._waiting:
            oldest = next(iter(self._waiting))
            self.remove(oldest)
            self._metrics.closed.labels("room").inc()
            oldest.close_now()
