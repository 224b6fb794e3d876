"""Computes what mid and batch may use of a node and of its NUMA zones, and when a new value is published.

The offer per resource is capacity - safety margin - max(system, reserved) - what prod needs, at least zero and offered
only once. It decays as its inputs age. A drop is published at once, a rise after a delay. Every offer carries a
decision record for each tier and resource, and a periodic full pass verifies it.
"""

CONSUMES = (
    "node.described",
    "node.deleted",
    "node.liveness_changed",
    "usage.windowed",
    "peak.predicted",
    "agent.block_changed",
    "node.reserved",
)
PUBLISHES = (
    "resources.offered",
    "decision.recorded",
    "strategy.checked",
    "strategy.followed",
    "health.reported",
    "resource.changed",
    "state.quarantined",
)
OWNS = ("node states", "offers", "ColocationStrategy documents")
