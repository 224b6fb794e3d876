"""Accepts node reports into history or refuses them with a reason, and tracks the liveness of nodes.

Keeps the inventory of nodes and pods, writes every accepted report to history, and closes aligned windows of usage from
that history exactly once. Stores which agents an operator has blocked and publishes the blocks. Deletes nodes that are
gone, on an operator's request or after an hour, and describes them again when they report.
"""

CONSUMES = ("node.described", "usage.reported", "pods.rostered", "agent.block_changed")
PUBLISHES = (
    "node.liveness_changed",
    "node.deleted",
    "node.described",
    "usage.windowed",
    "agent.block_changed",
    "health.reported",
    "state.quarantined",
)
OWNS = ("ingestion",)
