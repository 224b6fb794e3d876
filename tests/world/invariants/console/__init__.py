"""Invariants of the console: its figures and its stream."""
