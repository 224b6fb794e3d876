"""Tally decides nothing: it counts the nodes that were described since it took their partition, by pool.

An example: docs/how-to/add-a-service.md shows these files, and tests/unit/runtime/test_example_service.py runs them.
"""

CONSUMES = ("node.described",)
PUBLISHES = ()
OWNS = ()
