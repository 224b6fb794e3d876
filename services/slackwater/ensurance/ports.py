"""What the use cases need of the world."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Final, Protocol

from slackwater.decisions.record import DecisionRecord
from slackwater.ensurance.domain.guarded import Guarded
from slackwater.ensurance.domain.pools import PoolStanding
from slackwater.events.effect_measured import EffectMeasured
from slackwater.events.envelope import Event
from slackwater.model.identifiers import ALL_PARTITIONS

NODES: Final = "guarded_nodes"
STANDINGS: Final = "pool_autonomy"
"""Tables, as the quarantine names them."""


class GuardUnit(Protocol):
    """One transaction over the nodes, the standings of pools, and the events that go out with them."""

    async def publish(self, event: Event[Any]) -> None:
        """Into the outbox."""
        ...

    async def nodes(self, partitions: Collection[int] = ALL_PARTITIONS) -> Sequence[Guarded]:
        """Every node of these partitions, as last written. What cannot be read is left out, and in quarantine."""
        ...

    async def generation(self, node: str) -> int:
        """Of the intent that was declared last for a node, whether its state can be read or not; 0 for none."""
        ...

    async def save(self, guarded: Guarded, *, last: bool = False) -> Guarded:
        """Write a node and return it with its new version. Raises Conflict if somebody else wrote it since; `last`, of
        one node, is quicker: it is written, or the conflict raised, when the unit is left."""
        ...

    async def autonomies(self) -> Sequence[PoolStanding]:
        """How every pool stands that ever evicted, as last written; one that cannot be read is in
        quarantine, and empty."""
        ...

    async def save_autonomy(self, standing: PoolStanding) -> PoolStanding:
        """Write it and return it with its new version. Raises Conflict if somebody else wrote it since."""
        ...


class GuardStore(Protocol):
    """Where nodes and standings are kept."""

    def unit_of_work(self) -> AbstractAsyncContextManager[GuardUnit]:
        """Begin; commits on leaving. Raises Unavailable when the store does not answer."""
        ...


class Voice(Protocol):
    """What the agents hear at once (slackwater.bus.port.Bus)."""

    async def tell(self, event: Event[Any]) -> None:
        """Kept nowhere and confirmed by nobody. Raises Unavailable."""
        ...


class Meter(Protocol):
    """What operators watch."""

    def decided(self, record: DecisionRecord, sample_age_seconds: float | None) -> None:
        """A decision, and how old the sample was that led to it (None: a policy did)."""
        ...

    def standing(self, node: str, throttled: int, remaining_milli: int) -> None:
        """How many pods are throttled on a node, and what part of its last gap stays open."""
        ...

    def ignored(self, reason: str) -> None:
        """A report that must not cause action."""
        ...

    def effect(self, effect: EffectMeasured, kind: str, decision_age_seconds: float) -> None:
        """What came of a decision of this kind that was made so long after its sample."""
        ...

    def evictions_began(self, pool: str, number: int, repeated: int) -> None:
        """Pods of a pool were asked to go; of so many the workload had lost a pod there within the hour before, and
        had started this one since."""
        ...

    def evicted(self, outcome: str) -> None: ...

    def renewed(self, result: str) -> None:
        """The leases of a partition: `told`; or not renewed, because of `outbox_behind` or `unavailable`."""
        ...

    def closed(self, nodes: int) -> None:
        """How many nodes take no new pods now."""
        ...

    def stepped_back(self, pools: int) -> None:
        """How many pools may evict and only throttle for now, because a guard has tripped."""
        ...
