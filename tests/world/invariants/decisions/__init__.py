"""Invariants of decisions: each action has a record, and each record can be repeated."""
