"""Colocation decides what mid and batch may use of a node and of its NUMA zones, and when a new value is worth telling.

capacity - safety margin - max(system, reserved) - what prod needs, per resource, floored at zero and sold once; decayed
when its inputs grow old; published at once on a drop and after a while on a rise. Every offer carries a decision record
for each tier and resource, and is looked at again every now and then.
"""

CONSUMES = ("node.described", "node.liveness_changed", "usage.windowed", "peak.predicted", "agent.block_changed")
PUBLISHES = (
    "resources.offered",
    "decision.recorded",
    "strategy.checked",
    "strategy.followed",
    "health.reported",
    "state.quarantined",
)
OWNS = ("node states", "offers", "ColocationStrategy documents")
