"""Room on a node that is kept for pods to come: reservations, their life, owners, and where they are placed. Pure.

No rows and no events: the service migration keeps and publishes what is decided here.
"""
