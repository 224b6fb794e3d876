"""Predicts the peak usage of each node over the next 24 hours: per pod, per tier, for the system and for the node.

Folds every usage.windowed exactly once, in order of arrival, into the models that the policy of each pool names.
Publishes peak.predicted on a timer, with one decision record each for the CPU and the memory peak of tier prod.
"""

CONSUMES = ("node.described", "node.deleted", "usage.windowed", "agent.block_changed")
PUBLISHES = (
    "peak.predicted",
    "decision.recorded",
    "health.reported",
    "resource.changed",
    "state.quarantined",
)
OWNS = ("models", "snapshots", "published windows", "PredictPolicy documents")
