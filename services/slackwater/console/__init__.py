"""Console: consumes every event on the bus into a read model, shows it and explains it. It makes no decisions.

The API under /v1, the pages and the command line answer from this one read model, so that they agree.
"""

CONSUMES = (
    "node.described",
    "node.deleted",
    "node.liveness_changed",
    "node.scheduling_changed",
    "usage.reported",
    "pods.rostered",
    "waterline.crossed",
    "usage.windowed",
    "peak.predicted",
    "resources.offered",
    "strategy.followed",
    "resource.changed",
    "quota.accounted",
    "migration.changed",
    "decision.recorded",
    "agent.decision_recorded",
    "effect.measured",
    "intent.observed",
    "eviction.completed",
    "agent.block_changed",
    "health.reported",
)
PUBLISHES = (
    "health.reported",
    "state.quarantined",
)
OWNS = ("console",)
