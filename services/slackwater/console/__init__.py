"""Console: reads every fact on the bus, keeps a read model of it, shows it and explains it. It decides nothing.

The API under /v1, the pages and the command line all answer from this one read model, so they cannot disagree.
"""

CONSUMES = (
    "node.described",
    "node.liveness_changed",
    "node.scheduling_changed",
    "usage.reported",
    "waterline.crossed",
    "usage.windowed",
    "peak.predicted",
    "resources.offered",
    "strategy.followed",
    "decision.recorded",
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
