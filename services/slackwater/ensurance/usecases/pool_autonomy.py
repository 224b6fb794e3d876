"""What each pool may do now; in each round, pools that had stepped back and may evict again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from slackwater.decisions.reasons import Mode
from slackwater.decisions.record import DecisionRecord
from slackwater.ensurance.domain.pools import PoolStanding
from slackwater.ensurance.metrics import EnsuranceMetrics
from slackwater.ensurance.usecases.node_cache import GuardedNodeCache
from slackwater.events.decision_recorded import decision_event
from slackwater.intents.controls import ENSURANCE
from slackwater.model.identifiers import new_id
from slackwater.model.time import Clock
from slackwater.waterline.autonomy_record import AutonomyStep, autonomy_step_record
from slackwater.waterline.policies import autonomy
from slackwater.waterline.policies.autonomy import AutonomyPolicy


@dataclass(frozen=True, slots=True)
class PoolAutonomyState:
    """One pool: its policy, its mode now, the step back with its reason, and the counts of its guards."""

    pool: str
    policy: AutonomyPolicy
    mode: Mode
    evictions_within_hour: int
    missed_in_a_row: int
    stepped_back_at: datetime | None
    stepped_back_until: datetime | None
    because: str


class PoolAutonomy:
    """Records when a pool may evict again, by time or by an operator; the first replica to see it does. A step back is
    recorded with the report that led to it (guard_node)."""

    def __init__(self, cache: GuardedNodeCache, clock: Clock, meter: EnsuranceMetrics) -> None:
        self._cache = cache
        self._clock = clock
        self._meter = meter

    async def __call__(self) -> int:
        """How many pools changed. Raises Unavailable, Conflict if another replica was first."""
        if all(standing.state.stepped_back_at is None for standing in self._cache.standings()):
            return 0
        async with self._cache.lock():
            return sum([await self._review(standing) for standing in self._cache.standings()])

    async def read(self) -> Sequence[PoolAutonomyState]:
        """Every pool that has nodes here, an Autonomy or evictions, as stored, sorted by name. Raises Unavailable."""
        await self._cache.read_rules()
        now = self._clock.now()
        names = {standing.pool for standing in self._cache.standings()} | {node.pool for node in self._cache.nodes()}
        return [self._pool(name, now) for name in sorted((names | set(self._cache.rules.autonomy)) - {""})]

    async def _review(self, standing: PoolStanding) -> bool:
        now, node = self._clock.now(), self._node_of(standing.pool)
        if standing.state.stepped_back_at is None or node is None:  # a replica with nodes of the pool records it
            return False
        policy = self._cache.rules.autonomy_of(standing.pool)
        reviewed = replace(standing, state=autonomy.review_step_back(standing.state, policy, now))
        record = stepped_record(self._cache, reviewed, node, now)
        if record is None:
            return False
        async with self._cache.transaction() as unit:
            await unit.publish(decision_event(record, None, ENSURANCE.name))
            saved = await unit.save_autonomy(reviewed)
        self._cache.stands(saved)
        self._meter.decided(record, None)
        return True

    def _node_of(self, pool: str) -> str | None:
        return next((node.node for node in self._cache.nodes() if node.pool == pool), None)

    def _pool(self, name: str, now: datetime) -> PoolAutonomyState:
        policy = self._cache.rules.autonomy_of(name)
        state = autonomy.review_step_back(self._cache.standing(name).state, policy, now)
        since = state.stepped_back_at
        return PoolAutonomyState(
            name,
            policy,
            self._cache.mode(self._cache.standing(name), policy, now),
            len(state.evictions_at),
            state.missed_in_a_row,
            since,
            None if since is None else since + timedelta(seconds=policy.hold_seconds),
            state.because,
        )


def stepped_record(
    cache: GuardedNodeCache, after: PoolStanding, node: str, now: datetime, report_id: str | None = None
) -> DecisionRecord | None:
    """The record of a pool's change since `cache` last read it; None if it is unchanged."""
    rules, before = cache.rules, cache.standing(after.pool)
    policy = rules.autonomy_of(after.pool)
    step = AutonomyStep(after.pool, before.state, after.state, policy, now, node, rules.source, report_id)
    return autonomy_step_record(new_id(), step)
