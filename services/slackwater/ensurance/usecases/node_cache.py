"""Ensurance's nodes in memory (slackwater.intents.node_cache), with the policy and the standings of its pools."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from datetime import datetime

from slackwater.decisions.reasons import Mode
from slackwater.ensurance.domain.node_state import GuardedNode, lapsed
from slackwater.ensurance.domain.pools import PoolStanding, mode_of, options_of
from slackwater.ensurance.ports import NODES, STANDINGS, GuardStore, GuardUnit
from slackwater.ensurance.usecases.documents_in_force import DocumentsInForce
from slackwater.events.codec.packed import pack
from slackwater.events.intent_declared import (
    CpuThrottle,
    Eviction,
    LocalWaterline,
    MemoryProtection,
    MemoryThrottle,
    WeightPolicy,
)
from slackwater.intents.document import Content
from slackwater.intents.node_cache import NodeCache
from slackwater.intents.writer import IntentWriter
from slackwater.model.errors import Unavailable
from slackwater.model.identifiers import ALL_PARTITIONS
from slackwater.store.quarantine import Quarantine
from slackwater.telemetry.logs import get_logger
from slackwater.waterline.cycle import Options
from slackwater.waterline.execution.limits import ActionLimits
from slackwater.waterline.nodeqos import NodeQos
from slackwater.waterline.policies.autonomy import AutonomyPolicy
from slackwater.waterline.registry.metric import Metrics
from slackwater.waterline.registry.plugins import all_metrics
from slackwater.waterline.rulebook import Documents, Rulebook, rulebook_of
from slackwater.waterline.rules_codec import encode_rules

log = get_logger(__name__)
GuardIntents = IntentWriter[GuardedNode, GuardUnit]
"""Ensurance's documents; `content` is Book.content."""


class GuardedNodeCache(NodeCache[GuardedNode, GuardUnit]):
    """Nodes, policy and pools of this process."""

    def __init__(
        self,
        store: GuardStore,
        documents: DocumentsInForce,
        quarantine: Quarantine | None = None,
    ) -> None:
        super().__init__(store, NODES, quarantine)
        self._pools: dict[str, asyncio.Lock] = {}
        self._rules: Rulebook | None = None
        self._adopted: tuple[NodeQos, Documents] | None = None
        self._documents = documents
        self._standings: dict[str, PoolStanding] = {}
        self._handovers: dict[tuple[str, int, Mode, ActionLimits], str] = {}
        self.metrics: Metrics = all_metrics(_raised)
        """Built-in metrics and those of installed plugins."""

    @property
    def rules(self) -> Rulebook:
        """The rules that the documents in force resolve to. Raises Unavailable before the first load."""
        if self._rules is None:
            raise Unavailable("the policy has not been read from PostgreSQL yet")
        return self._rules

    def standing(self, pool: str) -> PoolStanding:
        return self._standings.get(pool) or PoolStanding(pool)

    def standings(self) -> tuple[PoolStanding, ...]:
        """Every pool that ever evicted."""
        return tuple(self._standings.values())

    def stands(self, standing: PoolStanding) -> None:
        """Keep the state of a pool that was just committed."""
        self._standings[standing.pool] = standing

    def options(self, guarded: GuardedNode, now: datetime, rules: Rulebook | None = None) -> Options:
        """What the node's pool may do now. `rules` replace those in force. Raises Unavailable before the first load."""
        in_force = rules or self.rules
        return options_of(guarded, in_force, self._mode_of(guarded, now, in_force))

    def _mode_of(self, guarded: GuardedNode, now: datetime, rules: Rulebook) -> Mode:
        return self.mode(self.standing(guarded.pool), rules.autonomy_of(guarded.pool), now)

    def mode(self, standing: PoolStanding, policy: AutonomyPolicy, now: datetime) -> Mode:
        """The mode of a pool now. A pool in quarantine evicts nothing, because the counts of its guards are lost."""
        return mode_of(standing, policy, now, counts_are_lost=self.counts_are_lost(standing.pool))

    def counts_are_lost(self, pool: str) -> bool:
        """Whether the pool's row is in quarantine."""
        return self.quarantine.holds(STANDINGS, pool)

    def content(self, guarded: GuardedNode, now: datetime, rules: Rulebook | None = None) -> Content:
        """The content of the node's document; `rules` replace those in force. The handover is rendered once for all
        nodes of the same rules. Raises Unavailable before the first load."""
        known = rules or self.rules
        options = known.options(self._mode_of(guarded, now, known), guarded.pool)
        key = known.source, known.revision, options.mode, options.limits
        if key not in self._handovers:
            self._handovers = {kept: text for kept, text in self._handovers.items() if kept[:2] == key[:2]}
            self._handovers[key] = pack(encode_rules(known.policies, options))
        return _content(guarded, known, self._handovers[key])

    def stepped_back(self, now: datetime) -> Sequence[str]:
        """Pools whose policy allows evictions and that only throttle now."""
        return [pool for pool, one in self._standings.items() if self._is_stepped_back(pool, one, now)]

    def _is_stepped_back(self, pool: str, standing: PoolStanding, now: datetime) -> bool:
        policy = self.rules.autonomy_of(pool)
        return policy.mode is Mode.EVICT and self.mode(standing, policy, now) is not Mode.EVICT

    def closed(self, now: datetime) -> int:
        """How many nodes are cordoned. An expired cordon does not count."""
        return sum(node.closed is not None and not lapsed(node.closed, now) for node in self._nodes.values())

    @property
    def ready(self) -> bool:
        return self._rules is not None and not self._stale

    def _adopt(self) -> None:
        """Follow the documents that were read last. The rulebook of the same documents stays the same object, because
        what is made of it is kept by its identity."""
        documents = self._documents.cluster, self._documents.documents
        if self._rules is None or documents != self._adopted:
            self._rules, self._adopted = rulebook_of(*documents, self.metrics), documents

    async def load(self, partitions: Collection[int] = ALL_PARTITIONS) -> None:
        """Read the documents (store the first NodeQOS if there is none yet), and the nodes of these partitions."""
        async with self._locks.all_nodes():
            self._partitions = frozenset(partitions)
            await self._documents.load()
            await self._refresh()

    async def read_rules(self) -> None:
        """Read documents and standings again, because another replica may have changed them, and follow them. Nodes are
        locked only to follow what was read: reading and parsing large documents took them a tenth of a second. Raises
        Unavailable."""
        async with self._store.unit_of_work() as unit:
            standings = await unit.autonomies()
        await self._documents.read()
        async with self.lock():
            self._standings |= {
                standing.pool: standing
                for standing in standings
                if standing.version >= self.standing(standing.pool).version
            }
            self._adopt()

    def of_pool(self, pool: str) -> asyncio.Lock:
        """The lock over a pool's state. A task that changes it holds the node's lock too."""
        return self._pools.setdefault(pool, asyncio.Lock())

    async def _refresh(self) -> None:
        async with self._store.unit_of_work() as unit:
            nodes = await unit.nodes(self._partitions)
            standings = await unit.autonomies()
        await self._documents.read()
        self._adopt()
        self._standings = {standing.pool: standing for standing in standings}
        self._replace(nodes)


def _raised(metric: str, part: str, why: str) -> None:
    log.warning("installed metric fails", metric=metric, part=part, reason=why)


def _content(guarded: GuardedNode, rules: Rulebook, handover: str) -> Content:
    """What ensurance wants of a node under these rules. `handover` is what a disconnected agent decides by."""
    return Content(
        weights=WeightPolicy(rules.weights),
        throttles=tuple(
            CpuThrottle(pod_uid=throttled.uid, cpu_limit_milli=throttled.limit_milli, decision_id=decision_id)
            for throttled, decision_id in guarded.limits()
        ),
        evictions=tuple(
            Eviction(
                id=eviction.id,
                pod_uid=eviction.pod_uid,
                grace_seconds=eviction.grace_seconds,
                deadline=eviction.deadline,
                reason=eviction.reason,
                decision_id=eviction.decision_id,
                waits=eviction.waits,
            )
            for eviction in guarded.evictions
        ),
        waterlines=tuple(
            LocalWaterline(metric=rule.metric, value=float(rule.waterline))
            for node in rules.policies.nodes
            if node.selector is None or node.selector.matches(guarded.labels)
            for rule in node.rules
        ),
        rules=handover,
        memory_throttles=tuple(
            MemoryThrottle(pod_uid=limited.uid, memory_high_bytes=limited.high_bytes, decision_id=decision_id)
            for limited, decision_id in guarded.memory_limits()
        ),
        memory_protection=MemoryProtection(rules.memory_protection),
    )
