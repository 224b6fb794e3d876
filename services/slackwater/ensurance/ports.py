"""What the use cases need: stored nodes, policy and pools, and meters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from slackwater.ensurance.domain.node_state import GuardedNode
from slackwater.ensurance.domain.pools import PoolStanding
from slackwater.intents.ports import IntentStore, IntentUnit

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
