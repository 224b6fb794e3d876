"""Level-triggered documents for nodes: each writer keeps one document per node, and agents converge to all of them.

Pure: controls (which writer owns which field), document, contacts, answers. With I/O behind ports: node_cache (the
nodes' states in memory), writer (publishes a document with the state that it follows from), reconciler (declares again
what changed without an event) and leases (renews all documents of a partition by one broadcast).
"""
