"""What the use cases need: stored nodes, policy and pools, and meters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from slackwater.decisions.record import DecisionRecord
from slackwater.ensurance.domain.node_state import GuardedNode
from slackwater.ensurance.domain.pools import PoolStanding
from slackwater.events.effect_measured import EffectMeasured
from slackwater.intents.ports import IntentStore, IntentUnit, LeaseMeter

NODES: Final = "guarded_nodes"
STANDINGS: Final = "pool_autonomy"
"""Tables, as the quarantine names them."""


class GuardUnit(IntentUnit[GuardedNode], Protocol):
    """One transaction over the nodes, the standings of pools, and the events that go out with them."""

    async def autonomies(self) -> Sequence[PoolStanding]:
        """The state of every pool that ever evicted, as last written. One that cannot be read is in quarantine, and
        empty."""
        ...

    async def save_autonomy(self, standing: PoolStanding) -> PoolStanding:
        """Write it and return it with its new version. Raises Conflict if another replica wrote it since."""
        ...


GuardStore = IntentStore[GuardUnit]
"""Where nodes and standings are kept."""


class EnsuranceMeter(LeaseMeter, Protocol):
    """What operators watch."""

    def decided(self, record: DecisionRecord, sample_age_seconds: float | None) -> None:
        """A decision, and how old the sample was that led to it (None: a policy did)."""
        ...

    def recorded(self, form: str) -> None:
        """A decision was recorded wholly, in a compact form, or is listed in a later record."""
        ...

    def standing(self, node: str, throttled: int, remaining_milli: int) -> None:
        """How many pods are throttled on a node, and what part of its last gap stays open."""
        ...

    def reversed(self, pool: str, result: str) -> None:
        """Limits of a node fell after they had risen: for a surge, damped, or damped by the longest wait."""
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

    def closed(self, nodes: int) -> None:
        """How many nodes take no new pods now."""
        ...

    def stepped_back(self, pools: int) -> None:
        """How many pools may evict and only throttle for now, because a guard has tripped."""
        ...
