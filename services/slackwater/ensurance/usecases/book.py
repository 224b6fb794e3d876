"""The nodes in memory, so that a calm report costs no query. PostgreSQL is the truth; this is what it said last."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Final

from slackwater.decisions.reasons import Mode
from slackwater.ensurance.domain.closing import lapsed
from slackwater.ensurance.domain.guarded import Guarded
from slackwater.ensurance.domain.pools import PoolStanding
from slackwater.ensurance.ports import STANDINGS, GuardStore, GuardUnit
from slackwater.ensurance.usecases.declaring import Terms
from slackwater.ensurance.usecases.documents_in_force import DocumentsInForce
from slackwater.ensurance.usecases.turns import Turns
from slackwater.model.errors import Unavailable
from slackwater.model.identifiers import ALL_PARTITIONS, partition_of
from slackwater.store.quarantine import Quarantine
from slackwater.store.quarantine_memory import unstored
from slackwater.telemetry.logs import get_logger
from slackwater.waterline.cycle import Options
from slackwater.waterline.execution.limits import Limits
from slackwater.waterline.handover import written
from slackwater.waterline.policies.autonomy import AutonomyPolicy
from slackwater.waterline.registry.metric import Metrics
from slackwater.waterline.registry.plugins import all_metrics
from slackwater.waterline.rulebook import Rulebook, rulebook_of

EVERYBODY: Final = ""

log = get_logger(__name__)


class Book:
    """Nodes and policy of this process. Changes that are written happen under `turn`: of one node one at a time, which
    keeps the order of its intents in the outbox that of their generations, or of everybody, which lets a new policy
    reach every node in one transaction.
    """

    def __init__(
        self,
        store: GuardStore,
        documents: DocumentsInForce,
        epoch_of: Callable[[int], int] = lambda _: 0,
        quarantine: Quarantine | None = None,
    ) -> None:
        self.quarantine = quarantine or unstored()
        self._store = store
        self._epoch_of = epoch_of
        self._partitions: frozenset[int] = frozenset()
        self._turns = Turns()
        self._pools: dict[str, asyncio.Lock] = {}
        self._nodes: dict[str, Guarded] = {}
        self._rules: Rulebook | None = None
        self._documents = documents
        self._standings: dict[str, PoolStanding] = {}
        self._handovers: dict[tuple[str, int, Mode, Limits], str] = {}
        self.metrics: Metrics = all_metrics(_raised)
        """Those that are built in and those that are installed beside us."""
        self._stale = True
        self.heard_at: dict[str, datetime] = {}
        """When a node last reported, by our clock; a node that is not in it has not reported since the start."""
        self.alone_since: dict[str, datetime] = {}
        """Since when every report of a node says that its agent decides by itself."""
        self.left_at: dict[str, datetime] = {}
        """Since when the intent of a node says that we do not hear it."""
        self.read_up_to: dict[int, int] = {}
        """By partition, the position in the stream of the report that was read last."""

    @property
    def rules(self) -> Rulebook:
        """What the documents mean. Raises Unavailable before the first load."""
        if self._rules is None:
            raise Unavailable("the policy has not been read from PostgreSQL yet")
        return self._rules

    def standing(self, pool: str) -> PoolStanding:
        return self._standings.get(pool) or PoolStanding(pool)

    def standings(self) -> tuple[PoolStanding, ...]:
        """Of every pool that ever evicted."""
        return tuple(self._standings.values())

    def stands(self, standing: PoolStanding) -> None:
        """Note what was just committed."""
        self._standings[standing.pool] = standing

    def options(
        self, guarded: Guarded, now: datetime, rules: Rulebook | None = None, standing: PoolStanding | None = None
    ) -> Options:
        """How far the node's pool may go now, by these rules and with this standing instead of those in force. Raises
        Unavailable before the first load."""
        known = rules or self.rules
        policy = known.autonomy_of(guarded.pool)
        return known.options(self.mode(standing or self.standing(guarded.pool), policy, now), guarded.pool)

    def mode(self, standing: PoolStanding, policy: AutonomyPolicy, now: datetime) -> Mode:
        """How far a pool may go now; one in quarantine evicts nothing, because what its guards have counted is lost."""
        mode = standing.mode(policy, now)
        is_out = mode is Mode.EVICT and self.quarantine.holds(STANDINGS, standing.pool)
        return Mode.THROTTLE if is_out else mode

    def terms(self, guarded: Guarded, now: datetime, rules: Rulebook | None = None) -> Terms:
        """What its intent says, by these rules instead of those in force. The handover is written once for all nodes of
        the same rules. Raises Unavailable before the first load."""
        known = rules or self.rules
        options = self.options(guarded, now, known)
        key = known.source, known.revision, options.mode, options.limits
        if key not in self._handovers:
            self._handovers = {kept: text for kept, text in self._handovers.items() if kept[:2] == key[:2]}
            self._handovers[key] = written(known.policies, options)
        return Terms(known, self.epoch_of(guarded.node), self._handovers[key], self._is_left(guarded.node))

    def _is_left(self, node: str) -> bool:
        left_at = self.left_at.get(node)
        return left_at is not None and self.heard_at.get(node, left_at) <= left_at

    def stepped_back(self, now: datetime) -> Sequence[str]:
        """Pools that may evict, and only throttle for now."""
        return [pool for pool, one in self._standings.items() if self._is_stepped_back(pool, one, now)]

    def _is_stepped_back(self, pool: str, standing: PoolStanding, now: datetime) -> bool:
        policy = self.rules.autonomy_of(pool)
        return policy.mode is Mode.EVICT and self.mode(standing, policy, now) is not Mode.EVICT

    def closed(self, now: datetime) -> int:
        """How many nodes take no new pods; a closing that has lapsed is none."""
        return sum(node.closed is not None and not lapsed(node.closed, now) for node in self._nodes.values())

    @property
    def ready(self) -> bool:
        return self._rules is not None and not self._stale

    def node(self, name: str) -> Guarded | None:
        """None for one that is not known, or in quarantine."""
        return None if self.quarantine.holds_node(name) else self._nodes.get(name)

    def nodes(self) -> tuple[Guarded, ...]:
        """Without those in quarantine."""
        out = self.quarantine.nodes
        return tuple(node for name, node in self._nodes.items() if name not in out) if out else (*self._nodes.values(),)

    def put(self, guarded: Guarded) -> None:
        """Note a node: either what was just committed, or changes that need no write (counters, last report)."""
        if partition_of(guarded.node) in self._partitions:  # else it was lost meanwhile
            self._nodes[guarded.node] = guarded

    def epoch_of(self, node: str) -> int:
        """Of our lease on the node's partition; goes into its intents."""
        return self._epoch_of(partition_of(node))

    def _adopt(self) -> None:
        """Follow the documents that were read last."""
        self._rules = rulebook_of(self._documents.cluster, self._documents.found, self.metrics)

    async def load(self, partitions: Collection[int] = ALL_PARTITIONS) -> None:
        """Read the documents (the first NodeQOS is stored if there is none yet), and the nodes of these partitions."""
        async with self._turns.of_everybody():
            self._partitions = frozenset(partitions)
            await self._documents.load()
            await self._refresh()

    async def take(self, partitions: Collection[int], now: datetime) -> None:
        """Read the nodes of partitions that are ours from now on: they count as heard, as far as we can know."""
        async with self._turns.of_everybody():
            async with self._store.unit_of_work() as unit:
                nodes = await unit.nodes(partitions)
            self._partitions |= frozenset(partitions)
            self._nodes.update({one.node: one for one in nodes})
            self.heard_at.update({one.node: now for one in nodes})
            for partition in partitions:  # read by whoever had it before us
                self.read_up_to.pop(partition, None)

    def owns(self, partition: int) -> bool:
        """Whether the nodes of a partition are here."""
        return partition in self._partitions

    def drop(self, partitions: Collection[int]) -> None:
        """They are another's: forget their nodes."""
        self._partitions -= frozenset(partitions)
        for node in [node for node in self._nodes if partition_of(node) in partitions]:
            del self._nodes[node]
            for times in (self.heard_at, self.left_at, self.alone_since):
                times.pop(node, None)
        for partition in partitions:
            self.read_up_to.pop(partition, None)

    def heard(self, node: str, now: datetime, *, alone: bool) -> None:
        """A report of a node that could be used, if only to learn that its agent decides by itself."""
        self.heard_at[node] = now
        if alone:
            self.alone_since.setdefault(node, now)
        else:
            self.alone_since.pop(node, None)

    def has_read(self, node: str, position: int) -> None:
        """A report of a node, at its position in the stream. The last counts, not the highest: what begins anew counts
        from 1."""
        self.read_up_to[partition_of(node)] = position

    async def read_rules(self) -> None:
        """Read documents and standings as PostgreSQL has them now: another replica may have changed them. Raises
        Unavailable."""
        async with self._store.unit_of_work() as unit:
            standings = await unit.autonomies()
        await self._documents.read()
        self._standings = {one.pool: one for one in standings}
        self._adopt()

    @asynccontextmanager
    async def turn(self, node: str = EVERYBODY) -> AsyncIterator[None]:
        """Hold everything still; with `node`, that node alone. After a transaction whose end is not known, what is
        written is read again first."""
        if node == EVERYBODY:
            async with self._turns.of_everybody():
                await self._refresh_if_stale()
                yield
            return
        while True:
            if self._stale:
                async with self._turns.of_everybody():
                    await self._refresh_if_stale()
            async with self._turns.of(node):
                if not self._stale:
                    yield
                    return

    def is_free(self, node: str) -> bool:
        """Whether a node may be read and put without a turn, by who does not wait in between."""
        return not self._stale and self._turns.is_free(node)

    def of_pool(self, pool: str) -> asyncio.Lock:
        """Held, within the turn of a node, by who changes how the pool stands: all its nodes count for that."""
        return self._pools.setdefault(pool, asyncio.Lock())

    async def _refresh_if_stale(self) -> None:
        if self._stale:
            await self._refresh()

    @asynccontextmanager
    async def writing(self) -> AsyncIterator[GuardUnit]:
        """A transaction within a turn. Whatever goes wrong in it, the next turn starts from what PostgreSQL holds."""
        try:
            async with self._store.unit_of_work() as unit:
                yield unit
        except BaseException:
            self._stale = True
            raise

    async def _refresh(self) -> None:
        async with self._store.unit_of_work() as unit:
            nodes = await unit.nodes(self._partitions)
            standings = await unit.autonomies()
        await self._documents.read()
        mine = [one for one in nodes if partition_of(one.node) in self._partitions]
        self._adopt()
        self._nodes, self._standings = {one.node: one for one in mine}, {one.pool: one for one in standings}
        self._stale = False


def _raised(metric: str, part: str, why: str) -> None:
    log.warning("installed metric fails", metric=metric, part=part, reason=why)
