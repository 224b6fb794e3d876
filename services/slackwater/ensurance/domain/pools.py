"""How the pools stand that may evict: what their guards have counted, shared by all replicas."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime

from slackwater.decisions.reasons import Mode
from slackwater.waterline.policies import autonomy
from slackwater.waterline.policies.autonomy import AutonomyPolicy, AutonomyState


@dataclass(frozen=True, slots=True)
class PoolStanding:
    """One pool; `version` counts writes of its row."""

    pool: str
    version: int = 0
    state: AutonomyState = field(default_factory=AutonomyState)

    def mode(self, policy: AutonomyPolicy, now: datetime) -> Mode:
        """How far the pool may go now."""
        if policy.mode is not Mode.EVICT:
            return policy.mode
        return autonomy.mode_of(autonomy.look(self.state, policy, now), policy)

    def after(self, policy: AutonomyPolicy, now: datetime, evictions: int, reliefs: tuple[bool, ...]) -> PoolStanding:
        """So many evictions began, and this is what earlier ones brought."""
        state = autonomy.look(self.state, policy, now)
        for _ in range(evictions):
            state = autonomy.evicted(state, policy, now)
        for relieved in reliefs:
            state = autonomy.effect_seen(state, policy, now, relieved=relieved)
        return replace(self, state=state)
