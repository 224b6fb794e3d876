"""The intent documents with which moves evict, and start what no other owner replaces."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from slackwater.events.envelope import Event
from slackwater.events.intent_declared import Eviction, IntentDeclared, WorkloadStart
from slackwater.intents.controls import MIGRATION
from slackwater.intents.document import NO_CONTENT, Content, IntentLease, document_event
from slackwater.migration.domain.eviction_documents import DeclaredNode
from slackwater.migration.domain.stored_jobs import StoredJob

WITHOUT_PARTITIONS: Final = 0
"""Epoch of a writer whose documents nothing renews: their evictions have a deadline of their own."""
LONGEST_LEASE_S: Final = 86_400.0


def intent_event(declared: DeclaredNode, grace_s: float, now: datetime) -> Event[IntentDeclared]:
    """Returns the whole document of a node. It holds until its last eviction or start may begin no more."""
    evictions = tuple(_eviction(stored, grace_s) for stored in declared.jobs)
    starts = tuple(_start(stored) for stored in declared.starts)
    deadlines = [*(item.deadline for item in evictions), *(item.deadline for item in starts)]
    last_s = max(deadlines, default=now).timestamp()
    content = Content(evictions=evictions, starts=starts)
    lease_s = LONGEST_LEASE_S if content == NO_CONTENT else min(max(last_s - now.timestamp(), 1.0), LONGEST_LEASE_S)
    lease = IntentLease(WITHOUT_PARTITIONS, lease_s)
    return document_event(MIGRATION, declared.node, declared.generation, content, lease, now, None)


def _start(stored: StoredJob) -> WorkloadStart:
    job = stored.job
    until_s = job.start_by_s if job.start_by_s is not None else 0.0
    because = f"moved from {job.node}" if job.start_attempt == 1 else f"back from {job.target_node}"
    return WorkloadStart(
        id=stored.start_id,
        workload=stored.pod.workload,
        digest=stored.pod.digest,
        deadline=datetime.fromtimestamp(until_s, UTC),
        reason=f"{because} by {stored.name}",
        decision_id=stored.decision or job.id,
    )


def _eviction(stored: StoredJob, grace_s: float) -> Eviction:
    job = stored.job
    until_s = job.evict_by_s if job.evict_by_s is not None else 0.0
    where = f" to {job.target_node}" if job.target_node else ""
    because = f": {stored.request.reason}" if stored.request.reason else ""
    return Eviction(
        id=stored.eviction_id,
        pod_uid=job.pod,
        grace_seconds=grace_s,
        deadline=datetime.fromtimestamp(until_s, UTC),
        reason=f"moved by {stored.name}{where}{because}",
        decision_id=stored.decision or stored.job.id,
    )
