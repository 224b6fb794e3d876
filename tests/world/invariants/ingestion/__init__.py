"""Invariants of windows."""
