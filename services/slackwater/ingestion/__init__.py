"""Ingestion decides what a node's report is worth: accepted into history, or refused with a reason; and who is alive.

It keeps the inventory of nodes and pods, writes every accepted report to history, and closes aligned windows of
usage from that history, each exactly once.
"""

CONSUMES = ("node.described", "usage.reported")
PUBLISHES = (
    "node.liveness_changed",
    "usage.windowed",
    "health.reported",
    "state.quarantined",
)
OWNS = ("ingestion",)
