"""Invariants of ensurance: what its evictions relieve."""
