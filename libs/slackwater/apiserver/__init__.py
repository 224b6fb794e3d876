"""Reads a Kubernetes API server into small records, and writes the status of nodes.

`port` is what adapters implement: a real one in the service kubernetes, and its twin in tests.support.api_server,
which pass the same tests. `kind_follower` lists a kind and then watches it; `inventory` folds what was read.
"""
