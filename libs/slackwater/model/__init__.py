"""What the whole product talks about: tiers, QoS classes, quantities, nodes, pods, errors, time.

Pure standard library. Nothing here knows a service, an event or a wire format.
"""
