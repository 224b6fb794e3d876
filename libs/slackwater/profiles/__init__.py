"""Colocation profiles: what pods of some namespaces and labels become when Kubernetes creates them. Pure.

No webhook and no API server: the service kubernetes answers reviews with these functions.
"""
