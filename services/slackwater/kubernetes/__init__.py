"""Decides when the offers of nodes are written to their status in a Kubernetes cluster, and in which order.

It reads nodes, pods, their owners, disruption budgets, priority classes and namespaces from the API server, and
applies what colocation offers as extended resources. A write is planned by a pure function, recorded, then made.
"""

CONSUMES = ("resources.offered",)
PUBLISHES = ("decision.recorded", "health.reported", "resource.changed", "state.quarantined")
OWNS = ("lent resources in the status of Kubernetes nodes",)
