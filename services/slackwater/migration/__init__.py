"""Moves pods to other nodes: arbitrates jobs, reserves room, evicts by intent, and waits for the replacement.

The state machines are slackwater.podmigration and slackwater.reservations; here are the documents, what is seen of the
cluster, and the rows. The owner of one partition decides; every change of a job is one transaction with the generation
of the one row of arbitration, so that two replicas never move the same pod.
"""

from __future__ import annotations

CONSUMES = (
    "node.described",
    "node.deleted",
    "node.liveness_changed",
    "node.scheduling_changed",
    "resources.offered",
    "peak.predicted",
    "usage.windowed",
    "pods.rostered",
    "intent.observed",
    "eviction.completed",
    "reclaim.answered",
    "move.proposed",
    "disruption_budget.changed",
    "agent.block_changed",
)
PUBLISHES = (
    "migration.changed",
    "node.reserved",
    "decision.recorded",
    "intent.declared",
    "reclaim.requested",
    "health.reported",
    "resource.changed",
    "state.quarantined",
)
OWNS = (
    "migration.resources",
    "migration.arbitration",
    "migration.jobs",
    "migration.kept_reservations",
    "migration.asks",
    "migration.answers",
)
