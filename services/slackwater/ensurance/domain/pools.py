"""How the pools stand that may evict: what their guards have counted, shared by all replicas."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final

from slackwater.decisions.reasons import Mode
from slackwater.ensurance.domain.node_state import GuardedNode
from slackwater.waterline.cycle import Options
from slackwater.waterline.policies import autonomy
from slackwater.waterline.policies.autonomy import AutonomyPolicy, AutonomyState
from slackwater.waterline.rulebook import Rulebook

REMEMBERED: Final = timedelta(hours=1)
"""For so long a workload counts as one that has lost a pod."""
REMEMBERED_AT_MOST: Final = 500
"""Workloads per pool: beyond that the oldest are forgotten."""
ANSWER_SECONDS: Final = 20.0
"""An eviction of which the API server has not shown within this time that it is accepted is given up: a call, the pod's
watch of the agent and its next report take less than half of it."""


@dataclass(frozen=True, slots=True)
class EvictedPod:
    """A pod that is asked to go: of which workload, and since when it ran."""

    workload: str
    started_at: datetime


@dataclass(frozen=True, slots=True)
class Loss:
    """A workload lost a pod to an eviction of ours."""

    workload: str
    at: datetime


@dataclass(frozen=True, slots=True)
class PoolStanding:
    """One pool; `version` counts writes of its row. `losses` has each workload once, with its last loss."""

    pool: str
    version: int = 0
    state: AutonomyState = field(default_factory=AutonomyState)
    losses: tuple[Loss, ...] = ()

    def mode(self, policy: AutonomyPolicy, now: datetime) -> Mode:
        """How far the pool may go now."""
        if policy.mode is not Mode.EVICT:
            return policy.mode
        return autonomy.mode_of(autonomy.review_step_back(self.state, policy, now), policy)

    def after(
        self, policy: AutonomyPolicy, now: datetime, evicted: Sequence[EvictedPod], reliefs: Sequence[bool]
    ) -> PoolStanding:
        """These evictions began, and this is what earlier ones brought."""
        state = autonomy.review_step_back(self.state, policy, now)
        for _ in evicted:
            state = autonomy.evicted(state, policy, now)
        for relieved in reliefs:
            state = autonomy.effect_seen(state, policy, now, relieved=relieved)
        return replace(self, state=state, losses=self._losses(now, evicted))

    def without(self, in_vain: Sequence[datetime]) -> PoolStanding:
        """Evictions that began then and were not accepted do not count; several may have begun at once."""
        left = list(self.state.evictions_at)
        for at in in_vain:
            if at in left:
                left.remove(at)
        return (
            self
            if len(left) == len(self.state.evictions_at)
            else replace(self, state=replace(self.state, evictions_at=tuple(left)))
        )

    def reserved(self, policy: AutonomyPolicy, now: datetime, until: datetime, number: int) -> PoolStanding:
        """So many evictions may begin until then: they count as if they began at the last moment."""
        state = autonomy.review_step_back(self.state, policy, now)
        return replace(self, state=replace(state, evictions_at=(*state.evictions_at, *(until,) * number)))

    def repeated(self, now: datetime, evicted: Sequence[EvictedPod]) -> tuple[EvictedPod, ...]:
        """Those that began after their workload had lost a pod here within the last hour: they were started again, only
        to be evicted again. Several replicas that go at once are none."""
        lost = {loss.workload: loss.at for loss in self.losses if now - loss.at < REMEMBERED}
        return tuple(one for one in evicted if one.workload in lost and one.started_at > lost[one.workload])

    def _losses(self, now: datetime, evicted: Sequence[EvictedPod]) -> tuple[Loss, ...]:
        fresh = {one.workload for one in evicted if one.workload}
        kept = [loss for loss in self.losses if now - loss.at < REMEMBERED and loss.workload not in fresh]
        return (*kept, *(Loss(workload, now) for workload in sorted(fresh)))[-REMEMBERED_AT_MOST:]


def mode_of(standing: PoolStanding, policy: AutonomyPolicy, now: datetime, *, counts_are_lost: bool) -> Mode:
    """Returns the mode of a pool now. One whose guards have lost their counts evicts nothing."""
    mode = standing.mode(policy, now)
    return Mode.THROTTLE if mode is Mode.EVICT and counts_are_lost else mode


def options_of(node: GuardedNode, rules: Rulebook, mode: Mode) -> Options:
    """Returns what may be done on a node whose pool is in this mode."""
    options = rules.options(mode, node.pool)
    if not node.shows_evictions:
        return options
    return replace(options, limits=replace(options.limits, answer_seconds=ANSWER_SECONDS))
