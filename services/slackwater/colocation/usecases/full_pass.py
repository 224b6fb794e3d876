"""Every offer is looked at again every now and then, whether anything happened or not, and put right where it is wrong.

Events and the timer change offers; in a healthy system this pass finds nothing. What it finds was damaged, or was
missed by a defect of ours: that is counted, told as `offer_healed`, and worth a look.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field

from slackwater.colocation.domain.node import NodeState
from slackwater.colocation.ports import Found
from slackwater.colocation.usecases.recompute_offer import STATES, Offering, recompute, revisit
from slackwater.decisions.reasons import Reason
from slackwater.model.identifiers import partition_of

SLICE = 20
"""Nodes that are read and computed at once; then others have their turn."""
EVERY = 10
"""Every node is looked at in one of so many passes, also if it was just decided by an event: the same function with the
same inputs would find nothing else, unless that is what is broken."""


@dataclass(slots=True)
class Passed:
    """How many nodes of each, and the names of those that were healed."""

    counts: dict[Found, int] = field(default_factory=lambda: dict.fromkeys(Found, 0))
    healed: list[str] = field(default_factory=list)

    @property
    def looked(self) -> bool:
        """Whether it took any time."""
        return any(count for found, count in self.counts.items() if found is not Found.SKIPPED)


class FullPass:
    """Of one replica: it looks after the nodes of its partitions."""

    def __init__(self) -> None:
        self._fresh: set[str] = set()
        self._number = 0

    def decided(self, node: str) -> None:
        """An event led to a decision on this node: it needs no look soon."""
        self._fresh.add(node)

    async def run(
        self, offering: Offering, partitions: Callable[[], Collection[int]], seconds: float, passed: Passed
    ) -> None:
        """One pass, spread over so many seconds; what it finds is added to `passed` as it goes. Raises Unavailable,
        Fenced; then the next pass begins anew."""
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
                    found = await _look(offering, state, partitions())
                    passed.counts[found] += 1
                    if found is Found.HEALED:
                        passed.healed.append(state.node)

    def _has_its_turn(self, node: str) -> bool:
        return zlib.crc32(node.encode()) % EVERY == self._number % EVERY


def _slices(nodes: Sequence[str]) -> Iterator[Sequence[str]]:
    for first in range(0, len(nodes), SLICE):
        yield nodes[first : first + SLICE]


async def _look(offering: Offering, state: NodeState, partitions: Collection[int]) -> Found:
    """First without a lock. Another look under lock decides, for an event may have been faster; and what changes by
    time alone is the timer's."""
    followed, now = offering.strategies.of(state), offering.clock.now()
    after, events = recompute(state, followed, now, None)
    if not events and after.due_at == state.due_at:
        return Found.SAME
    found = Found.HEALED
    if state.strategies not in ((), followed.sources):
        found = Found.FOLLOWED
    elif 0 < state.due_at <= now.timestamp():
        found = Found.AGED
    because = Reason.OFFER_HEALED if found is Found.HEALED else None
    return found if await revisit(offering, [state.node], partitions, because) else Found.SAME
