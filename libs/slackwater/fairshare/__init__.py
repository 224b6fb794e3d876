"""Elastic quota trees: runtime, min scaling, admission, reclaim and validation. Pure.

No claims in a store and no events: the service quota has both.
"""
