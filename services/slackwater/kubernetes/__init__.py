"""Decides when offers are written to the status of Kubernetes nodes, and when pods are evicted there.

It reads nodes, pods, their owners, disruption budgets, priority classes and namespaces from the API server, applies
what colocation offers as extended resources, and carries out what ensurance decides: evictions within disruption
budgets, and cordons as a taint.
A write is planned by a pure function, recorded, then made.
"""

CONSUMES = (
    "resources.offered",
    "intent.declared",
    "node.described",
    "node.scheduling_changed",
    "disruption_budget.changed",
    "agent.block_changed",
)
PUBLISHES = (
    "decision.recorded",
    "disruption_budget.changed",
    "eviction.completed",
    "health.reported",
    "resource.changed",
    "state.quarantined",
)
OWNS = (
    "lent resources in the status of Kubernetes nodes",
    "the taint of cordoned Kubernetes nodes",
    "evictions on nodes whose agent leaves them to it",
)
