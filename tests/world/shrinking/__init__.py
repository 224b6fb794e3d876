"""Finds a smaller plan that violates the same invariant: delta debugging on plain data."""
