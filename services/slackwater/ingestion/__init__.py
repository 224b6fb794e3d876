"""Ingestion decides what a node's report is worth: accepted into history, or refused with a reason; and who is alive.

It keeps the inventory of nodes and pods, writes every accepted report to history, and closes aligned windows of
usage from that history, each exactly once. It keeps which agents an operator has blocked, and publishes that.
"""

CONSUMES = ("node.described", "usage.reported", "agent.block_changed")
PUBLISHES = (
    "node.liveness_changed",
    "usage.windowed",
    "agent.block_changed",
    "health.reported",
    "state.quarantined",
)
OWNS = ("ingestion",)
