"""Declares documents again that changed without an event of their node: of nodes that are new to this replica, that
became silent or report again, and whose agents stay disconnected, or hold an older document, although their reports
are read.

Documents are not renewed by being declared again; a broadcast renews all leases of a partition (leases). So whatever a
document says must be declared when it changes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Final, Generic

from slackwater.intents.node_cache import U
from slackwater.intents.ports import S
from slackwater.intents.writer import IntentWriter
from slackwater.model.identifiers import partition_of

BATCH: Final = 200
"""Documents in one transaction; reports are handled between two of them."""
DISCONNECTED_LEASES: Final = 2 / 3
"""An agent that is still disconnected, or holds the same older document, after two renewals, in leases."""


class IntentReconciler(Generic[S, U]):
    """A node is released when no report of it could be used for `silent_seconds`, for any reason: its document then
    holds for no time, and renewals of its partition do not count for it. Its throttles are restored, because whether
    they are still needed cannot be seen, and its agent decides by itself.

    A disconnected agent connects again when its lease is renewed. One that was started while it was cut off has only
    remembered documents, and a remembered lease cannot be renewed: its document is declared again. So is one that the
    broker lost with its power before the agent received it."""

    def __init__(self, intents: IntentWriter[S, U], silent_seconds: float) -> None:
        self._intents = intents
        self._nodes = intents.nodes
        self._clock = intents.clock
        self._silent_seconds = silent_seconds
        self._disconnected_seconds = intents.lease_seconds * DISCONNECTED_LEASES
        self._listening_since = self._clock.now()

    async def __call__(self, changed: Callable[[S], bool] = lambda _: False) -> int:
        """Declare what is due, and the nodes that `changed` names. Returns how many. Raises Unavailable."""
        now, contacts = self._clock.now(), self._nodes.contacts
        due = [
            state.node
            for state in self._nodes.nodes()
            if contacts.is_due(state.node, now, self._listening_since, self._silent_seconds)
            or contacts.stays_disconnected(state.node, now, self._disconnected_seconds)
            or contacts.stays_outdated(state.node, now, self._disconnected_seconds)
            or changed(state)
        ]
        return await self.declare(due)

    async def acquire(self, partitions: Collection[int]) -> int:
        """Declare every node of partitions that have just become ours: their leases may be about to end, under another
        epoch. Raises Unavailable."""
        return await self.declare(
            [state.node for state in self._nodes.nodes() if partition_of(state.node) in partitions]
        )

    async def declare(self, names: Sequence[str]) -> int:
        """Declare these nodes, whatever was declared before. Raises Unavailable."""
        return sum([await self._declare_batch(names[first : first + BATCH]) for first in range(0, len(names), BATCH)])

    def interrupt(self) -> None:
        """Bus or PostgreSQL were away: silence is counted from now on."""
        self._listening_since = self._clock.now()

    async def _declare_batch(self, names: Sequence[str]) -> int:
        nodes = self._nodes
        async with nodes.lock():
            now = self._clock.now()
            states = [state for name in names if (state := nodes.node(name)) is not None]
            for name in names:
                silent = nodes.contacts.is_silent(name, now, self._listening_since, self._silent_seconds)
                nodes.contacts.declare(name, now, silent=silent)
            if states:
                async with nodes.transaction() as unit:
                    for state in states:
                        event = nodes.isolate(state.node, partial(self._intents.event, state, now, None))
                        if event is not None:
                            await unit.publish(event)
            return len(states)
