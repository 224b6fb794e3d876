"""The state of the cluster at a time, folded from events: what is there, used, expected, offered and intended.

`ClusterFold.apply(event)` takes inventory, usage, peaks, offers, intents and their answers; `ClusterFold.view(now)`
returns a `ClusterView` of NumPy arrays. Pure. Quota, descheduler, migration, placement and the Kubernetes adapter are
to read it.
"""
