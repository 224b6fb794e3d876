"""How far each pool may go while its nodes are replayed: the guards that ensurance keeps, over simulated time. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from slackwater.decisions.reasons import Mode
from slackwater.waterline.policies import autonomy
from slackwater.waterline.policies.autonomy import AutonomyPolicy, AutonomyState


class PoolGuard:
    """One pool. `step_backs` counts how often a guard tripped."""

    def __init__(self, policy: AutonomyPolicy) -> None:
        self._policy = policy
        self._state = AutonomyState(policy.generation)
        self.step_backs = 0

    def mode(self, now: datetime) -> Mode:
        if self._policy.mode is not Mode.EVICT:
            return self._policy.mode
        return autonomy.mode_of(autonomy.review_step_back(self._state, self._policy, now), self._policy)

    def deadlines(self) -> Iterator[datetime]:
        """From when on the mode may be another one by itself: a step back ends, or too many evictions are forgotten."""
        since = self._state.stepped_back_at
        if since is not None:
            yield since + timedelta(seconds=self._policy.hold_seconds)
            yield from (at + autonomy.HOUR for at in self._state.evictions_at)

    def note(self, now: datetime, evictions: int, reliefs: tuple[bool, ...]) -> None:
        """So many evictions began, and this is what earlier ones brought."""
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
