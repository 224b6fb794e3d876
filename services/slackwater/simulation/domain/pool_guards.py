"""The autonomy guards of pools, as ensurance keeps them, in simulated time. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from slackwater.decisions.reasons import Mode
from slackwater.waterline.policies import autonomy
from slackwater.waterline.policies.autonomy import AutonomyPolicy, AutonomyState


class PoolGuard:
    """The guard of one pool. `step_backs` counts how often it withdrew the pool's autonomy."""

    def __init__(self, policy: AutonomyPolicy) -> None:
        self._policy = policy
        self._state = AutonomyState(policy.generation)
        self.step_backs = 0

    def mode(self, now: datetime) -> Mode:
        if self._policy.mode is not Mode.EVICT:
            return self._policy.mode
        return autonomy.mode_of(autonomy.review_step_back(self._state, self._policy, now), self._policy)

    def deadlines(self) -> Iterator[datetime]:
        """Yields the times at which the mode can change without an event: a step back ends, or evictions expire."""
        since = self._state.stepped_back_at
        if since is not None:
            yield since + timedelta(seconds=self._policy.hold_seconds)
            yield from (at + autonomy.HOUR for at in self._state.evictions_at)

    def note(self, now: datetime, evictions: int, reliefs: tuple[bool, ...]) -> None:
        """Records started evictions and the reliefs of earlier ones."""
        if not evictions and not reliefs:
            return
        before = autonomy.review_step_back(self._state, self._policy, now)
        state = before
        for _ in range(evictions):
            state = autonomy.evicted(state, self._policy, now)
        for relieved in reliefs:
            state = autonomy.effect_seen(state, self._policy, now, relieved=relieved)
        self.step_backs += before.stepped_back_at is None and state.stepped_back_at is not None
        self._state = state
