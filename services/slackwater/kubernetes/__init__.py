"""Decides when offers are written to the status of Kubernetes nodes, and when pods are evicted there.

It reads nodes, pods, their owners, disruption budgets, priority classes and namespaces from the API server, applies
what colocation offers as extended resources, and carries out the evictions of ensurance within disruption budgets.
A write is planned by a pure function, recorded, then made.
"""

CONSUMES = ("resources.offered", "intent.declared", "node.described")
PUBLISHES = ("decision.recorded", "eviction.completed", "health.reported", "resource.changed", "state.quarantined")
OWNS = ("lent resources in the status of Kubernetes nodes", "evictions on nodes whose agent leaves them to it")
