"""Colocation decides what batch may use of a node, and when a new value is worth telling.

capacity - safety margin - max(system, reserved) - high-priority use, per resource, floored at zero; decayed when its
inputs grow old; published at once on a drop and after a while on a rise. Every offer carries two decision records.
"""

CONSUMES = ("node.described", "node.liveness_changed", "usage.windowed", "peak.predicted")
PUBLISHES = ("resources.offered", "decision.recorded", "strategy.checked", "health.reported")
OWNS = ("node states", "offers", "ColocationStrategy documents")
