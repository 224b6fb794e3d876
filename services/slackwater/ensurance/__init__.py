"""Ensurance decides how much CPU lower tiers must give back so that prod does not wait, and when they get it again.

It keeps one intent document per node (writer `ensurance`): the limit of each throttled pod, how CPU is weighted and
which waterlines the agent watches by itself. The planning is slackwater.waterline; here are the nodes' states, the
policy, the records of every decision and the measurement of what each really did.
"""

from __future__ import annotations

CONSUMES = (
    "node.described",
    "node.deleted",
    "usage.reported",
    "pods.rostered",
    "waterline.crossed",
    "intent.observed",
    "eviction.completed",
    "eviction.requested",
    "reclaim.requested",
    "agent.block_changed",
)
PUBLISHES = (
    "intent.declared",
    "lease.renewed",
    "node.scheduling_changed",
    "decision.recorded",
    "effect.measured",
    "reclaim.answered",
    "health.reported",
    "resource.changed",
    "state.quarantined",
)
OWNS = (
    "ensurance.guarded_nodes",
    "ensurance.node_qos",
    "ensurance.pod_qos",
    "ensurance.avoidance_actions",
    "ensurance.autonomies",
    "ensurance.pool_autonomy",
)
