"""Colocation profiles: what pods of some namespaces and labels become when Kubernetes creates them. Pure."""
