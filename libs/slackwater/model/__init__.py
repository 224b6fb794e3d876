"""The shared domain model: tiers, QoS classes, quantities, nodes, pods, errors, time.

Nothing in this package depends on a service, an event or a wire format.
"""
