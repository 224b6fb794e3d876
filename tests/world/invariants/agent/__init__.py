"""Invariants of the agent and its machine: limits, evictions, exact restore."""
