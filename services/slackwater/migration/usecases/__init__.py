"""Follows the cluster, moves pods, and serves the documents of its kinds."""
