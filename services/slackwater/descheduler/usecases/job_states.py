"""The last state of each job that the descheduler proposed, from migration.changed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from slackwater.descheduler.domain.move_jobs import JobState
from slackwater.events.envelope import Event

SOURCE: Final = "descheduler"
MOST_JOBS: Final = 20_000
"""The longest unchanged are dropped first."""


class JobStates:
    """Every replica watches: the event is the last value of each job."""

    def __init__(self) -> None:
        self._jobs: dict[str, JobState] = {}

    @property
    def now(self) -> Mapping[str, JobState]:
        """By name."""
        return self._jobs

    async def receive(self, event: Event[Any]) -> None:
        """Fold a MigrationChanged. An older one than what is known changes nothing."""
        data = event.data
        changed_s = data.changed_at.timestamp()
        known = self._jobs.get(data.job)
        if data.source != SOURCE or (known is not None and known.changed_s > changed_s):
            return
        self._jobs.pop(data.job, None)
        self._jobs[data.job] = JobState(
            data.phase, data.step, data.outcome, data.target_node, data.replacement, changed_s
        )
        while len(self._jobs) > MOST_JOBS:
            del self._jobs[next(iter(self._jobs))]
