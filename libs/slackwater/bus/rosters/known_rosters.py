"""The rosters that the readers of one process have: of each node the last few, read from the stream when one is
missing.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from typing import Final

from slackwater.bus.consume.metrics import BusMetrics
from slackwater.bus.consume.token_buckets import TokenBuckets
from slackwater.events.codec.fast_decode import read_columns
from slackwater.events.envelope import Event
from slackwater.events.pods_rostered import PodsRostered
from slackwater.events.rosters import SLOTS, Roster, RosterMissing
from slackwater.events.usage_reported import UsageReported
from slackwater.model.errors import Unavailable
from slackwater.model.time import Clock

MOST_NODES: Final = 20_000
LOADS_AT_ONCE: Final = 32
NODE_LOADS_AT_ONCE, NODE_LOAD_SECONDS = 16, 1.0
"""Rosters of one node that are read: the burst, then one per NODE_LOAD_SECONDS. A report of 1 kB may name a roster of
512 KiB. A node has another roster with a report at most, hence once a second.
"""
PLACE_BYTES: Final = 256
"""What a report weighs for each pod of its roster, beside its own bytes: 1 MiB for the most pods of a node (4,096)."""

ReadRoster = Callable[[str, int], Awaitable[Event[PodsRostered] | None]]
"""Returns the last `pods.rostered` of a node in a slot; None if there is none. Raises Unavailable."""


class KnownRosters:
    """Rosters by node and digest. One per bus: its consumers and watches share it."""

    def __init__(self, read: ReadRoster, metrics: BusMetrics, clock: Clock) -> None:
        self._read = read
        self._metrics = metrics
        self._clock = clock
        self._loads = TokenBuckets[str](NODE_LOADS_AT_ONCE, NODE_LOAD_SECONDS, MOST_NODES)
        self._of_nodes: OrderedDict[str, tuple[Roster, ...]] = OrderedDict()

    def find(self, node: str, digest: str) -> Roster | None:
        """Implements slackwater.events.rosters.FindRoster. Never returns a roster with another digest."""
        for roster in self._of_nodes.get(node, ()):
            if roster.digest == digest:
                return roster
        return None

    def weight(self, node: str) -> int:
        """Returns what a report of a node may cost its reader beyond its own bytes, by the largest of its rosters: a
        few hundred bytes can count by a roster of 4,096 pods."""
        return PLACE_BYTES * max((len(roster.uids) for roster in self._of_nodes.get(node, ())), default=0)

    async def load(self, missing: Iterable[RosterMissing]) -> None:
        """Read these rosters, each from its slot; those of a node that asks for too many stay missing. Raises
        Unavailable."""
        wanted = dict.fromkeys((report.node, report.slot) for report in missing)
        slots = [slot for slot in wanted if self._loads.acquire(slot[0], self._clock.monotonic())]
        for start in range(0, len(slots), LOADS_AT_ONCE):
            await asyncio.gather(*(self._load(node, slot) for node, slot in slots[start : start + LOADS_AT_ONCE]))

    async def prepare(self, bodies: Iterable[bytes]) -> None:
        """Read the rosters that reports of a stream name, so that they can be joined afterwards. Where the broker does
        not answer they stay missing."""
        columns = [columns for body in bodies if (columns := read_columns(UsageReported, body)) is not None]
        missing = [
            RosterMissing(report["node"], report["roster"], report["roster_slot"])
            for report in columns
            if report["own_roster"] is None and self.find(report["node"], report["roster"]) is None
        ]
        with suppress(Unavailable):
            await self.load(missing)

    def missed(self, reader: str) -> None:
        """Count a report that a reader leaves out, because its roster is not there."""
        self._metrics.roster_missing.labels(reader).inc()

    async def _load(self, node: str, slot: int) -> None:
        event = await self._read(node, slot)
        if event is None:
            return
        before = self._of_nodes.get(node, ())
        roster = _sharing(event.data.roster, before[0]) if before else event.data.roster
        rosters = [known for known in before if known.digest != roster.digest]
        self._of_nodes[node] = (roster, *rosters[: SLOTS - 1])
        self._of_nodes.move_to_end(node)
        while len(self._of_nodes) > MOST_NODES:
            self._of_nodes.popitem(last=False)


def _sharing(roster: Roster, before: Roster) -> Roster:
    """Returns the roster with the pods of the one before where they are described alike: most are."""
    earlier = {pod.uid: pod for pod in before.pods}
    pods = tuple(same if (same := earlier.get(pod.uid)) == pod and same is not None else pod for pod in roster.pods)
    return replace(roster, pods=pods)
