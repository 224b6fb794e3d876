"""Finds pods that would be better on another node, and proposes their move.

The decisions are slackwater.descheduling's; here are the profiles, the cluster as events describe it, the cycles with
their records, and the moves that workloads rest after. It moves nothing: the service migration follows move.proposed.
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
    "waterline.crossed",
    "pods.rostered",
    "reclaim.requested",
    "eviction.completed",
    "migration.changed",
    "resource.changed",
    "agent.block_changed",
)
PUBLISHES = (
    "move.proposed",
    "decision.recorded",
    "health.reported",
    "resource.changed",
    "state.quarantined",
)
OWNS = (
    "descheduler.resources",
    "descheduler.profile_cycles",
    "descheduler.workload_moves",
    "descheduler.move_plans",
)
