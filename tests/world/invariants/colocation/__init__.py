"""Invariants of offers."""
