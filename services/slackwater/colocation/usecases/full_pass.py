"""Periodically recomputes every offer, whether or not events came, and repairs wrong ones.

Events and the timer change offers, so in a healthy system this pass finds nothing. A difference was caused by damage or
by an event missed through a defect: it is counted and published as `offer_healed`, and should be investigated. So is an
offer that its stream has lost: a broker without power loses its last messages after it has confirmed them, and readers
would keep the offer before it until the next change.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field

from slackwater.colocation.ports import Found
from slackwater.colocation.usecases.recompute_offer import STATES, Offering, recompute, recompute_nodes
from slackwater.colocation.usecases.withdraw_offer import Latest
from slackwater.decisions.reasons import Reason
from slackwater.events.resources_offered import ResourcesOffered
from slackwater.model.identifiers import partition_of
from slackwater.offers.node import NodeState

SLICE = 20
"""Nodes that are read and computed in one step, so that other tasks can run in between."""
EVERY = 10
"""Every node is checked in one of this many passes, even if an event has just decided it: the same function with the
same inputs gives the same result unless the decision path itself is broken.
"""
ON_ITS_WAY_SECONDS = 60.0
"""A younger offer need not be in its stream yet."""


@dataclass(slots=True)
class Passed:
    """Number of nodes by result, and the names of the healed ones."""

    counts: dict[Found, int] = field(default_factory=lambda: dict.fromkeys(Found, 0))
    healed: list[str] = field(default_factory=list)

    @property
    def took_time(self) -> bool:
        """Returns whether any node was checked."""
        return any(count for result, count in self.counts.items() if result is not Found.SKIPPED)


class FullPass:
    """The full pass of one replica over the nodes of its partitions; `latest` reads the last offer in the stream."""

    def __init__(self, latest: Latest) -> None:
        self._latest = latest
        self._fresh: set[str] = set()
        self._number = 0

    def decided(self, node: str) -> None:
        """Records that an event led to a decision on this node, so that the next pass may skip it."""
        self._fresh.add(node)

    async def run(
        self, offering: Offering, partitions: Callable[[], Collection[int]], seconds: float, passed: Passed
    ) -> None:
        """Runs one pass, spread over `seconds`; results are added to `passed` as they come.

        Raises Unavailable, Fenced; the next pass then starts from the beginning.
        """
        fresh, self._fresh = self._fresh, set()
        self._number += 1
        ours = partitions()
        at_rest = await offering.store.at_rest(offering.clock.now().timestamp())
        nodes = [node for node in at_rest if partition_of(node) in ours]
        due = [node for node in nodes if node not in fresh or self._has_its_turn(node)]
        passed.counts[Found.SKIPPED] += len(nodes) - len(due)
        for some in _slices(due):
            await offering.clock.sleep(seconds * len(some) / len(due))
            for state in await offering.store.states_of(some):
                with offering.quarantine.isolating(STATES, state.node, node=state.node):
                    result = await _check(offering, state, partitions(), self._latest)
                    passed.counts[result] += 1
                    if result is Found.HEALED:
                        passed.healed.append(state.node)

    def _has_its_turn(self, node: str) -> bool:
        return zlib.crc32(node.encode()) % EVERY == self._number % EVERY


def _slices(nodes: Sequence[str]) -> Iterator[Sequence[str]]:
    for first in range(0, len(nodes), SLICE):
        yield nodes[first : first + SLICE]


async def _check(offering: Offering, state: NodeState, partitions: Collection[int], latest: Latest) -> Found:
    """Recomputes one node without a lock, and again under lock if it differs, because an event may have changed it.

    Changes by time alone are left to the timer.
    """
    followed, now = offering.strategies.of(state), offering.clock.now()
    after, events = recompute(state, followed, now, None)
    if not events and await _is_lost(offering, state, latest):
        told = await recompute_nodes(offering, [state.node], partitions, Reason.OFFER_HEALED, republish=True)
        return Found.HEALED if told else Found.SAME
    if not events and after.due_at == state.due_at:
        return Found.SAME
    result = Found.HEALED
    if state.strategies not in ((), followed.sources):
        result = Found.FOLLOWED
    elif 0 < state.due_at <= now.timestamp():
        result = Found.AGED
    because = Reason.OFFER_HEALED if result is Found.HEALED else None
    return result if await recompute_nodes(offering, [state.node], partitions, because) else Found.SAME


async def _is_lost(offering: Offering, state: NodeState, latest: Latest) -> bool:
    """Returns whether the stream ends with an older offer of the node, though the last one was published long ago.

    Raises Unavailable.
    """
    if state.told_by is None or (offering.clock.now() - state.told_by.at).total_seconds() < ON_ITS_WAY_SECONDS:
        return False
    last = await latest(ResourcesOffered, state.node)
    return last is None or last.data.generation < state.generation
