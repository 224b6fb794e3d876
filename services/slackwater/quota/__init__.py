"""Arbitrates claims on what node pools have: admits, queues and reclaims by elastic quotas.

The arithmetic is slackwater.fairshare; here are the documents, the claims, what the pools have now, and the records of
every decision. Claims change in one transaction with the generation of their tree, so that two replicas never admit
the same room twice.
"""

from __future__ import annotations

CONSUMES = (
    "node.described",
    "node.deleted",
    "node.liveness_changed",
    "node.scheduling_changed",
    "node.reserved",
    "resources.offered",
    "reclaim.answered",
    "pods.rostered",
    "agent.block_changed",
)
PUBLISHES = (
    "claim.changed",
    "decision.recorded",
    "eviction.requested",
    "reclaim.requested",
    "health.reported",
    "quota.accounted",
    "resource.changed",
    "state.quarantined",
)
OWNS = (
    "quota.resources",
    "quota.quota_trees",
    "quota.quota_uses",
    "quota.claims",
    "quota.ended_claims",
    "quota.tree_history",
)
