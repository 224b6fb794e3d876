"""The nodes in memory, so that a calm report costs no query. PostgreSQL is the truth; this is what it said last."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime

from slackwater.ensurance.domain.guarded import Guarded
from slackwater.ensurance.ports import GuardStore, GuardUnit
from slackwater.model.errors import Unavailable
from slackwater.waterline.nodeqos import NodeQos


class Book:
    """Nodes and policy of this process. All changes happen one at a time, under `turn`.

    One turn for all nodes keeps the order of intents in the outbox that of their generations, and lets a new policy
    reach every node in one transaction. A turn is microseconds for a calm report, milliseconds for a decision.
    """

    def __init__(self, store: GuardStore) -> None:
        self._store = store
        self._turn = asyncio.Lock()
        self._nodes: dict[str, Guarded] = {}
        self._policy: NodeQos | None = None
        self._stale = True
        self.heard_at: dict[str, datetime] = {}
        """When a node last reported, by our clock; a node that is not in it has not reported since the start."""

    @property
    def policy(self) -> NodeQos:
        """Raises Unavailable before the first load."""
        if self._policy is None:
            raise Unavailable("the policy has not been read from PostgreSQL yet")
        return self._policy

    @property
    def ready(self) -> bool:
        return self._policy is not None and not self._stale

    def node(self, name: str) -> Guarded | None:
        return self._nodes.get(name)

    def nodes(self) -> tuple[Guarded, ...]:
        return tuple(self._nodes.values())

    def put(self, guarded: Guarded) -> None:
        """Note a node: either what was just committed, or changes that need no write (counters, last report)."""
        self._nodes[guarded.node] = guarded

    def adopt(self, policy: NodeQos) -> None:
        self._policy = policy

    async def load(self, first_policy: NodeQos) -> None:
        """Read everything; store `first_policy` if there is none yet."""
        async with self._turn:
            async with self._store.unit_of_work() as unit:
                policy = await unit.policy(first_policy.metadata.name)
                if policy is None:
                    await unit.save_policy(first_policy)
                nodes = await unit.nodes()
            self._policy, self._nodes = policy or first_policy, {one.node: one for one in nodes}
            self._stale = False

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Hold everything still. After a transaction whose end is not known, what is written is read again first."""
        async with self._turn:
            if self._stale:
                await self._refresh()
            yield

    @asynccontextmanager
    async def writing(self) -> AsyncIterator[GuardUnit]:
        """A transaction within a turn. Whatever goes wrong in it, the next turn starts from what PostgreSQL holds."""
        self._stale = True
        async with self._store.unit_of_work() as unit:
            yield unit
        self._stale = False

    async def _refresh(self) -> None:
        async with self._store.unit_of_work() as unit:
            policy = await unit.policy(self.policy.metadata.name)
            nodes = await unit.nodes()
        self._policy, self._nodes = policy or self._policy, {one.node: one for one in nodes}
        self._stale = False
