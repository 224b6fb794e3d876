"""Prediction decides what peak a node's owners will need: per pod, per tier, for the system and for the node.

It folds every usage.windowed exactly once, in order of arrival, into the models that the policy of each pool names, and
publishes peak.predicted on a clock, with one decision record for the CPU and one for the memory peak of tier prod.
"""

CONSUMES = ("node.described", "usage.windowed", "agent.block_changed")
PUBLISHES = (
    "peak.predicted",
    "decision.recorded",
    "health.reported",
    "state.quarantined",
)
OWNS = ("models", "snapshots", "published windows", "PredictPolicy documents")
