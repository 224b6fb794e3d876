"""On move.proposed: a job is kept for the next round, one per proposal, however often it is delivered."""

from __future__ import annotations

from typing import Final

from slackwater.events.move_proposed import MoveProposed
from slackwater.migration.domain.job_asks import JobAsk
from slackwater.migration.ports import MigrationStore
from slackwater.model.time import Clock
from slackwater.podmigration.documents import JobRequest
from slackwater.podmigration.jobs import job_name

SOURCE: Final = "descheduler"


class ProposeMoves:
    """Keeps proposals. One that is older than its time to live is dropped: the cluster has changed since."""

    def __init__(self, store: MigrationStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    async def __call__(self, proposed: MoveProposed) -> None:
        """Idempotent by the id of the proposal. Raises Unavailable."""
        now_s, proposed_s = self._clock.now().timestamp(), proposed.proposed_at.timestamp()
        if now_s >= proposed_s + proposed.ttl_seconds:
            return
        request = proposed_request(proposed)
        if request.name not in await self._store.jobs():
            await self._store.ask([JobAsk(request.name, min(proposed_s, now_s), request)])


def proposed_request(proposed: MoveProposed) -> JobRequest:
    """Returns the job of a proposal; its name follows from the id alone."""
    because = f"{proposed.profile}/{proposed.plugin}: {proposed.reason}"
    return JobRequest(
        name=job_name(proposed.id),
        pod_uid=proposed.pod_uid,
        pod_namespace=proposed.namespace,
        pod_name=proposed.pod_name,
        mode=proposed.mode,
        wait_s=proposed.ttl_seconds,
        priority=proposed.priority,
        target_node=proposed.target,
        reason=because[:1024],
        source=SOURCE,
        gain=f"{proposed.gain:.3f}" if proposed.gain else "",
        caused_by=proposed.decision_id,
    )
