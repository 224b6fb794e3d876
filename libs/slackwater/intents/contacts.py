"""When each node last reported, and what its agent was last told about that. Pure: times are handed in."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime

from slackwater.model.identifiers import partition_of


@dataclass(slots=True)
class Contacts:
    """Times by node, by this service's clock."""

    last_report_at: dict[str, datetime] = field(default_factory=dict)
    """The last report that could be used. A node that is missing has not reported since the start."""
    disconnected_since: dict[str, datetime] = field(default_factory=dict)
    """Since when every report of a node says that its agent decides by itself."""
    released_at: dict[str, datetime] = field(default_factory=dict)
    """When the document of a node last said that it holds for no time, because the node is silent."""
    declared_at: dict[str, datetime] = field(default_factory=dict)
    """The `declared_at` of the newest document of a node, also of one that could not be stored."""
    outdated_since: dict[str, tuple[datetime, datetime]] = field(default_factory=dict)
    """The `declared_at` of another document that a node's agent holds, and since when its reports say so."""

    def report(self, node: str, now: datetime, *, disconnected: bool = False, follows: datetime | None = None) -> None:
        """Record a report that could be used, if only to learn that its agent decides by itself. `follows` is the
        `declared_at` of the document that the agent holds (None: not known)."""
        self.last_report_at[node] = now
        if follows is not None and follows == self.declared_at.get(node, follows):
            self.outdated_since.pop(node, None)
        elif follows is not None and self.outdated_since.get(node, (None, now))[0] != follows:
            self.outdated_since[node] = follows, now
        if disconnected:
            self.disconnected_since.setdefault(node, now)
        else:
            self.disconnected_since.pop(node, None)

    def acquire(self, nodes: Iterable[str], now: datetime) -> None:
        """Nodes that another replica owned before count as having reported now."""
        self.last_report_at.update(dict.fromkeys(nodes, now))

    def discard(self, node: str) -> None:
        for times in (self.last_report_at, self.disconnected_since, self.released_at, self.declared_at):
            times.pop(node, None)
        self.outdated_since.pop(node, None)

    def is_released(self, node: str) -> bool:
        """Whether the node was released as silent and has not reported since."""
        released_at = self.released_at.get(node)
        return released_at is not None and self.last_report_at.get(node, released_at) <= released_at

    def is_silent(self, node: str, now: datetime, listening_since: datetime, silent_seconds: float) -> bool:
        """Whether no report could be used for more than `silent_seconds`, of the time since `listening_since`."""
        last_at = max(self.last_report_at.get(node, listening_since), listening_since)
        return (now - last_at).total_seconds() > silent_seconds

    def is_due(self, node: str, now: datetime, listening_since: datetime, silent_seconds: float) -> bool:
        """Whether a document has to say that the node is released, or that it no longer is."""
        if node in self.released_at:
            return not self.is_released(node)
        return self.is_silent(node, now, listening_since, silent_seconds)

    def stays_disconnected(self, node: str, now: datetime, seconds: float) -> bool:
        since = self.disconnected_since.get(node)
        return since is not None and (now - since).total_seconds() >= seconds

    def stays_outdated(self, node: str, now: datetime, seconds: float) -> bool:
        """Whether the agent holds the same older document for so long."""
        since = self.outdated_since.get(node)
        return since is not None and (now - since[1]).total_seconds() >= seconds

    def declare(self, node: str, now: datetime, *, silent: bool) -> None:
        """Record that the node's document is declared now. Whether the agent is disconnected or holds an older one is
        counted anew from its next report on."""
        if silent:
            self.released_at[node] = now
        else:
            self.released_at.pop(node, None)
        self.disconnected_since.pop(node, None)
        self.outdated_since.pop(node, None)


@dataclass(slots=True)
class ReadPositions:
    """How far the stream of reports was read, by partition."""

    by_partition: dict[int, int] = field(default_factory=dict)
    _unchanged_since: dict[int, tuple[int, float]] = field(default_factory=dict)

    def record(self, node: str, position: int) -> None:
        """A report of a node was read. The last position counts, not the highest: a stream that begins anew counts
        from 1."""
        self.by_partition[partition_of(node)] = position

    def discard(self, partitions: Iterable[int]) -> None:
        """What another replica has read, or will, says nothing about this one."""
        for partition in partitions:
            self.by_partition.pop(partition, None)

    def recent(self, partition: int, now: float, within_seconds: float) -> int:
        """The position read last; 0 if it did not change for `within_seconds` (monotonic). The stream may have begun
        anew since, and a position of the old one would renew leases of nodes that were not read."""
        position = self.by_partition.get(partition, 0)
        before, since = self._unchanged_since.get(partition, (0, now))
        if position != before:
            before, since = self._unchanged_since[partition] = position, now
        return before if now - since <= within_seconds else 0
